"""Contacts of the pairs with a cylinder, ellipsoid, mesh or height field; built only for models that have such pairs.

`detect` runs after that of `contact.py` and appends to its contacts: first the pairs of plane, sphere, capsule and box
in the order of the pair table, then these in that order. `contact_geometry` is the taped twin of that in `residual.py`
for them. So models of simple shapes neither compile nor run the general code.
"""

from types import SimpleNamespace

import warp as wp

from warpsim.kernels import contact
from warpsim.kernels.cache import cached
from warpsim.kernels.collide import features, heightfield, resolution, shape
from warpsim.kernels.collide.broadphase import Grid
from warpsim.kernels.collide.manifold import contact_features, is_general
from warpsim.kernels.contact import TOUCHES
from warpsim.kernels.flags import CONTACT_OVERFLOW, UNRESOLVED
from warpsim.kernels.precision import module_name, types
from warpsim.kernels.tree import Topology


@cached
def structs(S) -> SimpleNamespace:
    """`ConvexScene`: which pairs are handled here, and the geometry of meshes."""
    MeshTable = shape.structs(S).MeshTable

    @wp.struct
    class ConvexScene:
        pair: wp.array(dtype=int)  # rows of the pair table
        geom_mesh: wp.array(dtype=int)  # index of the mesh or height field, -1
        table: MeshTable

    return SimpleNamespace(ConvexScene=ConvexScene)


@cached
def functions(S) -> SimpleNamespace:
    """Shared by the forward and the taped kernel."""
    t = types(S)
    Shape, ConvexScene = shape.structs(S).Shape, structs(S).ConvexScene
    Scene = contact.structs(S).Scene

    @wp.func
    def geom_shape(scene: Scene, convex_scene: ConvexScene, geom_size: wp.array2d(dtype=t.vec3), w: int, g: int):
        s = Shape()
        s.type = scene.geom_type[g]
        s.mesh = convex_scene.geom_mesh[g]
        s.size = geom_size[w % geom_size.shape[0], g]
        return s

    return SimpleNamespace(geom_shape=geom_shape)


@cached
def build(S) -> SimpleNamespace:
    """The kernel of the forward path."""
    t = types(S)
    st = contact.structs(S)
    Scene, Contacts, ConvexScene = st.Scene, st.Contacts, structs(S).ConvexScene
    plain, shapes = contact.build(S), functions(S)
    apart, is_still, look_ahead, store_contact = plain.apart, plain.is_still, plain.look_ahead, plain.store_contact
    longest_way = resolution.build(S).longest_way
    narrow = heightfield.build(S)
    detect_features, evaluate, bounding_radius = narrow.detect, narrow.evaluate, features.build(S).bounding_radius
    vec3, vec6, transform = t.vec3, t.vec6, t.transform

    @wp.kernel(module=module_name("contact_convex", S), enable_backward=False)
    def detect(
        topology: Topology,
        scene: Scene,
        convex_scene: ConvexScene,
        h: S,
        geom_size: wp.array2d(dtype=vec3),
        link_X: wp.array2d(dtype=transform),
        link_V: wp.array2d(dtype=vec6),
        link_V_star: wp.array2d(dtype=vec6),
        geom_X: wp.array2d(dtype=transform),
        geom_speed: wp.array2d(dtype=S),
        grid: Grid,
        # in and out
        contacts: Contacts,
    ):
        """Append contacts of the convex pairs that exist or would come about within the step. Launch over worlds."""
        w = wp.tid()
        count = contacts.count[w]
        flags = contacts.flags[w]
        capacity = contacts.pair.shape[1]
        pairs = convex_scene.pair.shape[0]
        if grid.capacity > 0:
            pairs = grid.count[w]
        for k in range(pairs):
            p = int(0)
            if grid.capacity > 0:
                p = grid.candidate[w * grid.capacity + k]
            else:
                p = convex_scene.pair[k]
            a = scene.pair_geom[p, 0]
            b = scene.pair_geom[p, 1]
            margin = h * (geom_speed[w, a] + geom_speed[w, b])
            general = is_general(scene.geom_type[a]) or is_general(scene.geom_type[b])
            still = is_still(geom_speed, w, a, b)
            if general and not still and not apart(scene, geom_X, geom_size, w, a, b, margin):
                shape_a = shapes.geom_shape(scene, convex_scene, geom_size, w, a)
                shape_b = shapes.geom_shape(scene, convex_scene, geom_size, w, b)
                X_a = geom_X[w, a]
                X_b = geom_X[w, b]
                radius_b = bounding_radius(shape_b.type, shape_b.size)
                manifold = detect_features(convex_scene.table, shape_a, X_a, shape_b, X_b, radius_b, margin)
                way = longest_way(shape_a.type, shape_a.size, shape_b.type, shape_b.size)
                for i in range(manifold.count):
                    feature = contact_features(manifold, i)
                    g = evaluate(convex_scene.table, shape_a, X_a, shape_b, X_b, feature)
                    found = look_ahead(topology, scene, link_X, link_V, link_V_star, h, way, w, a, b, g)
                    flags = flags | (found & UNRESOLVED)
                    if found & TOUCHES != 0:
                        if count < capacity:
                            store_contact(contacts, w, count, p, feature, g)
                            count += 1
                        else:
                            flags = flags | CONTACT_OVERFLOW
        contacts.count[w] = count
        contacts.flags[w] = flags

    return SimpleNamespace(detect=detect)


@cached
def build_residual(S) -> SimpleNamespace:
    """The taped kernel."""
    t = types(S)
    st = contact.structs(S)
    Scene, Contacts, ConvexScene = st.Scene, st.Contacts, structs(S).ConvexScene
    laws, shapes, d_features = contact.laws(S), functions(S), heightfield.build(S)
    vec3, mat33, transform = t.vec3, t.mat33, t.transform

    @wp.kernel(module=module_name("residual_convex", S, True))
    def contact_geometry(
        scene: Scene,
        convex_scene: ConvexScene,
        contacts: Contacts,
        geom_pose: wp.array3d(dtype=S),
        geom_size: wp.array2d(dtype=vec3),
        link_X: wp.array2d(dtype=transform),
        # out
        phi: wp.array2d(dtype=S),
        point: wp.array2d(dtype=vec3),
        frame: wp.array2d(dtype=mat33),
    ):
        """Distance, point and frame of the convex contacts with their features frozen. Launch over (worlds, max_contacts)."""
        w, c = wp.tid()
        if c < contacts.count[w]:
            p = contacts.pair[w, c]
            a = scene.pair_geom[p, 0]
            b = scene.pair_geom[p, 1]
            if is_general(scene.geom_type[a]) or is_general(scene.geom_type[b]):
                X_a = laws.geom_pose_world(scene, geom_pose, link_X, w, a)
                X_b = laws.geom_pose_world(scene, geom_pose, link_X, w, b)
                shape_a = shapes.geom_shape(scene, convex_scene, geom_size, w, a)
                shape_b = shapes.geom_shape(scene, convex_scene, geom_size, w, b)
                g = d_features.evaluate(convex_scene.table, shape_a, X_a, shape_b, X_b, contacts.feature[w, c])
                phi[w, c] = g.phi
                point[w, c] = g.point
                frame[w, c] = d_features.contact_frame(g.normal)

    return SimpleNamespace(contact_geometry=contact_geometry)
