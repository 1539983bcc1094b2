# SPDX-License-Identifier: Apache-2.0
"""C++ at the beginning of every Warp module: thread indices, array access, loops and adjoints in fewer instructions.

Warp counts a negative index from the end of its axis and allows any stride along the last axis. Kernels of this
project index from 0 and get arrays with a contiguous last axis (`warpsim.device.launch` refuses others). The address
of an entry is then one multiplication and one addition per axis except the last. In debug mode an index outside its
axis stops the program, as in Warp, and so does a negative one.

These are overloads of Warp's function templates that match `array_t` more closely; Warp's remain for all other uses.
"""

import ast

import warp as wp

from . import cpu_target

ENTRIES = """
// Every use of a named constant has a variable of its own.
namespace wp {
// In one instruction where the compiler, which does not unroll either, would not find it.
template <typename T> CUDA_CALLABLE inline T* moved(T* from, int i, int bytes)
{
#if defined(__CUDA_ARCH__) && defined(SHORT_CODE)
    long long to;
    asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(to) : "r"(i), "r"(bytes), "l"(reinterpret_cast<long long>(from)));
    return static_cast<T*>(__cvta_global_to_generic(to));
#else
    return reinterpret_cast<T*>(reinterpret_cast<char*>(from) + size_t(i) * bytes);
#endif
}
template <typename T> CUDA_CALLABLE inline T* row_at(const array_t<T>& a, int i)
{
    assert(i >= 0 && i < a.shape[0]);
    return moved(a.data, i, a.strides[0]);
}
template <typename T> CUDA_CALLABLE inline T* row_at(const array_t<T>& a, int i, int j)
{
    assert(j >= 0 && j < a.shape[1]);
    return moved(row_at(a, i), j, a.strides[1]);
}
template <typename T> CUDA_CALLABLE inline T* address(const array_t<T>& a, int i)
{
    assert(a.ndim == 1 && i >= 0 && i < a.shape[0]);
    return moved(a.data, i, int(sizeof(T)));
}
template <typename T> CUDA_CALLABLE inline T* address(const array_t<T>& a, int i, int j)
{
    assert(a.ndim == 2 && j >= 0 && j < a.shape[1]);
    return moved(row_at(a, i), j, int(sizeof(T)));
}
template <typename T> CUDA_CALLABLE inline T* address(const array_t<T>& a, int i, int j, int k)
{
    assert(a.ndim == 3 && k >= 0 && k < a.shape[2]);
    return moved(row_at(a, i, j), k, int(sizeof(T)));
}
template <typename T> CUDA_CALLABLE inline void array_store(const array_t<T>& a, int i, T value)
{
    FP_VERIFY_FWD_1(value)
    *address(a, i) = value;
}
template <typename T> CUDA_CALLABLE inline void array_store(const array_t<T>& a, int i, int j, T value)
{
    FP_VERIFY_FWD_2(value)
    *address(a, i, j) = value;
}
template <typename T> CUDA_CALLABLE inline void array_store(const array_t<T>& a, int i, int j, int k, T value)
{
    FP_VERIFY_FWD_3(value)
    *address(a, i, j, k) = value;
}
template <typename T> CUDA_CALLABLE inline array_t<T> rows_from(const array_t<T>& a, T* data, int axes)
{
    array_t<T> rows;
    rows.data = data;
    rows.ndim = a.ndim - axes;
    for (int axis = 0; axis + axes < ARRAY_MAX_DIMS; ++axis) {
        rows.shape[axis] = a.shape[axis + axes];
        rows.strides[axis] = a.strides[axis + axes];
    }
    if (a.grad)
        rows.grad = reinterpret_cast<T*>(
            reinterpret_cast<char*>(a.grad) + (reinterpret_cast<char*>(data) - reinterpret_cast<char*>(a.data))
        );
    return rows;
}
template <typename T> CUDA_CALLABLE inline array_t<T> view(array_t<T>& a, int i)
{
    assert(a.ndim > 1);
    return rows_from(a, row_at(a, i), 1);
}
template <typename T> CUDA_CALLABLE inline array_t<T> view(array_t<T>& a, int i, int j)
{
    assert(a.ndim > 2);
    return rows_from(a, row_at(a, i, j), 2);
}
}
"""
# Thread indices by 32-bit arithmetic. Warp's take a 64-bit division and remainder per axis, 40 to 100 instructions each
# on CUDA. `warpsim.device.launch` refuses launches of 2³² threads.
INDICES = """
namespace wp {
// Split the index along the last axis off: by a shift where its extent is a power of two, as the number of lanes is.
CUDA_CALLABLE inline int last_index(unsigned& index, unsigned extent)
{
#if defined(__CUDA_ARCH__)
    const int bits = 31 - __clz(extent);
#else
    const int bits = 31 - __builtin_clz(extent);
#endif
    const unsigned before = extent == 1u << bits ? index >> bits : index / extent;
    const int last = index - before * extent;
    index = before;
    return last;
}
template <int N> CUDA_CALLABLE inline void indices(unsigned index, const launch_bounds_t<N>& over, int& i, int& j)
{
    j = last_index(index, over.shape[1]);
    i = index;
}
template <int N>
CUDA_CALLABLE inline void indices(unsigned index, const launch_bounds_t<N>& over, int& i, int& j, int& k)
{
    k = last_index(index, over.shape[2]);
    indices(index, over, i, j);
}
template <int N>
CUDA_CALLABLE inline void indices(unsigned index, const launch_bounds_t<N>& over, int& i, int& j, int& k, int& l)
{
    l = last_index(index, over.shape[3]);
    indices(index, over, i, j, k);
}
}
#undef builtin_tid2d
#undef builtin_tid3d
#undef builtin_tid4d
#define builtin_tid2d(i, j) wp::indices(THREAD, dim, i, j)
#define builtin_tid3d(i, j, k) wp::indices(THREAD, dim, i, j, k)
#define builtin_tid4d(i, j, k, l) wp::indices(THREAD, dim, i, j, k, l)
"""
ON_CPU = "#define THREAD unsigned(task_index)\n"
ON_CUDA = """
#define THREAD unsigned(_idx)
#undef builtin_tid1d
#define builtin_tid1d() static_cast<int>(THREAD)
"""
# clang returns a struct of 16 bytes in two registers and then keeps counter and step of a loop in one of them; a larger
# struct avoids this.
LOOPS = """
namespace wp {
struct counted_t : range_t {
    int unused;
};
CUDA_CALLABLE inline counted_t counted(int start, int end, int step)
{
    counted_t r;
    r.start = start;
    r.end = end;
    r.step = step;
    r.i = start;
    return r;
}
CUDA_CALLABLE inline counted_t counted(int start, int end) { return counted(start, end, 1); }
CUDA_CALLABLE inline counted_t counted(int end) { return counted(0, end, 1); }
}
#define range(...) counted(__VA_ARGS__)
"""
# Adjoints on the CPU: Warp's with other addresses; `sums.py` has those of CUDA. In debug mode indices are checked
# against the array's shape: Warp's adjoint of `a.shape` sets the shape of the gradient's array to 0.
GRADIENTS = """
namespace wp {
template <typename T, typename... Ints> CUDA_CALLABLE inline T* \
gradient(const array_t<T>& a, const array_t<T>& g, Ints... indices)
{
    char* entry = reinterpret_cast<char*>(address(a, indices...));
    if (!g.data) return a.grad ? reinterpret_cast<T*>(\
entry - reinterpret_cast<char*>(a.data) + reinterpret_cast<char*>(a.grad)) : nullptr;
    const int at[] = { indices... };
    entry = reinterpret_cast<char*>(g.data);
    for (int axis = 0; axis < int(sizeof...(Ints)); ++axis) entry += size_t(at[axis]) * g.strides[axis];
    return reinterpret_cast<T*>(entry);
}
template <typename T> CUDA_CALLABLE inline void add_gradient(T* gradient, const T& adj_output)
{
    if (gradient) adj_atomic_add(gradient, adj_output);
}
template <typename T> CUDA_CALLABLE inline void \
take_gradient(const array_t<T>& a, const array_t<T>& g, T* gradient, T& adj_value)
{
    if (!gradient) return;
    adj_value += *gradient;
    if ((!g.data || g.data == a.grad) && !(a.flags & ARRAY_FLAG_RETAIN_GRAD)) *gradient = T {};
}
"""
for _names in ("i", "ij", "ijk", "ijkl"):
    _at, _given = ", ".join(_names), ", ".join(f"int {x}" for x in _names)
    _unused = ", ".join("int" for _ in _names)
    GRADIENTS += f"""
template <typename T> CUDA_CALLABLE inline void
adj_entry_address(const array_t<T>& a, {_given}, const array_t<T>& g, {_unused}, const T& adj_output)
{{
    add_gradient(gradient(a, g, {_at}), adj_output);
}}
template <typename T> CUDA_CALLABLE inline void
adj_entry_store(const array_t<T>& a, {_given}, T value, const array_t<T>& g, {_unused}, T& adj_value)
{{
    take_gradient(a, g, gradient(a, g, {_at}), adj_value);
}}
"""
GRADIENTS += """
}
#define adj_address adj_entry_address
#define adj_array_store adj_entry_store
"""


def _fresh_constants() -> None:
    """Let Warp's code generator create a new variable for every use of a named constant.

    Warp 1.19 has one variable for all uses in a function. At the first `float64(NAME)` it turns that into a variable
    that is assigned at this place, for example in a branch that is not taken, and read later. Without optimisation such
    a number is whatever the stack holds.
    """
    visitors = wp._src.codegen.Adjoint.node_visitors
    named = visitors[ast.Name]

    def emit_Name(adj, node):
        found = named(adj, node)
        value = getattr(found, "constant", None)
        return adj.add_constant(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else found

    if not getattr(named, "fresh", False):
        emit_Name.fresh = True
        visitors[ast.Name] = emit_Name


def _whole_gradients() -> None:
    """Let `wp.grad(f)` have the adjoints of all functions that f calls, and let any function call one that uses it.

    Warp 1.19 requests the adjoint of f, and those of the functions that f calls while it generates f. If another kernel
    of the module has brought in such a function before, its adjoint does nothing, and its part of the gradient is
    silently 0. Kernels are generated in the order of their hashes. Functions that call `wp.grad` come last in the
    program, after functions that call them. They have no adjoints: a kernel or gradient that needs one is refused here.
    """
    builder = wp._src.context.ModuleBuilder
    propagate = builder._propagate_used_by_backward_kernel

    def propagate_all(self):
        propagate(self)
        wanted = [x for x in self.functions if x.adj.force_adjoint_codegen]
        while wanted:
            called = [x for x in wanted.pop().adj.called_user_functions if not x.adj.force_adjoint_codegen]
            for x in called:
                x.adj.force_adjoint_codegen = True
            wanted += called
        for x in self.functions:  # called functions come before their callers
            x.adj.uses_grad_call |= any(y.adj.uses_grad_call for y in x.adj.called_user_functions)
        for x in (*self.kernels, *self.functions):
            if x.adj.uses_grad_call and (x.adj.used_by_backward_kernel or x.adj.force_adjoint_codegen):
                raise TypeError(f"{x.key} calls wp.grad and has an adjoint, which would be 0")

    if not getattr(propagate, "whole", False):
        propagate_all.whole = True
        builder._propagate_used_by_backward_kernel = propagate_all


_fresh_constants()
_whole_gradients()
# An experimental part of Warp; without it modules have no preamble, which is correct but slower.
_options = getattr(wp, "ModuleBuildOptions", None)
_ON_CPU = ON_CPU + INDICES + ENTRIES + LOOPS + GRADIENTS
_ON_CUDA = ON_CUDA + INDICES + ENTRIES
OPTIONS = _options and _options(extra_cpu_preamble=_ON_CPU, extra_cuda_preamble=_ON_CUDA)
SHORT = _options and _options(extra_cpu_preamble=_ON_CPU, extra_cuda_preamble="#define SHORT_CODE\n" + _ON_CUDA)


def warp_module(name: str, short: bool = False, fast_math: bool = False, more: str = "") -> wp.Module:
    """The Warp module of this name, with the preamble.

    `short`: CUDA does not unroll loops, which halves the machine code. Solvers use it: else their iterations exceed the
    instruction cache. The CPU compiles at this level in either case. `fast_math`: see `real.kernel`; no effect on the
    CPU. `more`: C++ that follows the preamble and without which the module does not compile. On CUDA every thread runs
    a kernel once, without Warp's loop over a grid.
    """
    module = wp.get_module(name)
    module.options["default_grid_stride"] = False
    if wp.config.cpu_compiler_flags == cpu_target.WARPS:  # flags that a user has chosen are for all modules
        module.options["cpu_compiler_flags"] = cpu_target.flags()
    if short:
        module.options["optimization_level"] = 2
    if fast_math:
        module.options["fast_math"] = True
    if more:
        module.options["extra_build_options"] = wp.ModuleBuildOptions(
            extra_cpu_preamble=_ON_CPU + more, extra_cuda_preamble=_ON_CUDA + more
        )
    elif OPTIONS is not None:
        module.options["extra_build_options"] = SHORT if short else OPTIONS
    return module
