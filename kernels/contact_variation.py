"""How distance, point and normal of a contact change as geom B moves past geom A with the features frozen.

Row i of `slope` is the gradient of component i of (φ, p, n) by the motion (ω; u) of B about the contact's point: one
adjoint of `features.evaluate` per row. Motions of A follow, because a motion of both geoms carries everything along.
"""

from types import SimpleNamespace

import warp as wp

from warpsim.kernels import contact, contact_convex, spatial
from warpsim.kernels.cache import cached
from warpsim.kernels.collide import features, heightfield
from warpsim.kernels.collide.manifold import is_general
from warpsim.kernels.precision import module_name, types

ROWS = 7  # φ, p, n


@cached
def functions(S) -> SimpleNamespace:
    """Shared by simple and convex pairs."""
    t = types(S)
    sp = spatial.build(S)
    vec6, quat, transform = t.vec6, t.quat, t.transform
    ContactGeometry = features.build(S).ContactGeometry

    @wp.func
    def moved(X: transform, point: t.vec3, motion: vec6) -> transform:
        """X after the small motion (ω; u) about `point`, right to first order."""
        turn = S(0.5) * sp.angular(motion)
        x = wp.transform_get_translation(X) + sp.velocity_at(motion, wp.transform_get_translation(X) - point)
        return transform(x, quat(turn[0], turn[1], turn[2], S(1.0)) * wp.transform_get_rotation(X))

    @wp.func
    def component(g: ContactGeometry, i: int) -> S:
        """Component i of (φ, p, n)."""
        x = g.phi
        if i > 3:
            x = g.normal[i - 4]
        elif i > 0:
            x = g.point[i - 1]
        return x

    return SimpleNamespace(moved=moved, component=component)


@cached
def build(S) -> SimpleNamespace:
    """The kernel for pairs of plane, sphere, capsule and box."""
    t = types(S)
    st, shared = contact.structs(S), functions(S)
    Scene, Contacts = st.Scene, st.Contacts
    evaluate, moved, component = features.build(S).evaluate, shared.moved, shared.component

    @wp.kernel(module=module_name("contact_variation", S, True))
    def vary(
        scene: Scene,
        contacts: Contacts,
        geom_size: wp.array2d(dtype=t.vec3),
        geom_X: wp.array2d(dtype=t.transform),
        motion: wp.array3d(dtype=t.vec6),
        # out
        value: wp.array3d(dtype=S),
    ):
        """One component of (φ, p, n) after a motion of geom B. Its adjoint is launched over (worlds, max_contacts, ROWS)."""
        w, c, i = wp.tid()
        if c < contacts.count[w]:
            p = contacts.pair[w, c]
            a = scene.pair_geom[p, 0]
            b = scene.pair_geom[p, 1]
            if not is_general(scene.geom_type[a]) and not is_general(scene.geom_type[b]):
                row = w % geom_size.shape[0]
                X_b = moved(geom_X[w, b], contacts.point[w, c], motion[w, c, i])
                g = evaluate(
                    scene.geom_type[a], geom_X[w, a], geom_size[row, a], scene.geom_type[b], X_b, geom_size[row, b],
                    contacts.feature[w, c],
                )  # fmt: skip
                value[w, c, i] = component(g, i)

    return SimpleNamespace(vary=vary)


@cached
def build_convex(S) -> SimpleNamespace:
    """The kernel for pairs with a cylinder, ellipsoid, mesh or height field."""
    t = types(S)
    st, shared, shapes = contact.structs(S), functions(S), contact_convex.functions(S)
    Scene, Contacts, ConvexScene = st.Scene, st.Contacts, contact_convex.structs(S).ConvexScene
    evaluate, moved, component = heightfield.build(S).evaluate, shared.moved, shared.component

    @wp.kernel(module=module_name("contact_variation_convex", S, True))
    def vary(
        scene: Scene,
        convex_scene: ConvexScene,
        contacts: Contacts,
        geom_size: wp.array2d(dtype=t.vec3),
        geom_X: wp.array2d(dtype=t.transform),
        motion: wp.array3d(dtype=t.vec6),
        # out
        value: wp.array3d(dtype=S),
    ):
        """As the simple pairs' kernel."""
        w, c, i = wp.tid()
        if c < contacts.count[w]:
            p = contacts.pair[w, c]
            a = scene.pair_geom[p, 0]
            b = scene.pair_geom[p, 1]
            if is_general(scene.geom_type[a]) or is_general(scene.geom_type[b]):
                X_b = moved(geom_X[w, b], contacts.point[w, c], motion[w, c, i])
                shape_a = shapes.geom_shape(scene, convex_scene, geom_size, w, a)
                shape_b = shapes.geom_shape(scene, convex_scene, geom_size, w, b)
                g = evaluate(convex_scene.table, shape_a, geom_X[w, a], shape_b, X_b, contacts.feature[w, c])
                value[w, c, i] = component(g, i)

    return SimpleNamespace(vary=vary)
