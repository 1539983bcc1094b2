# SPDX-License-Identifier: Apache-2.0
"""Dual numbers as scalar types of Warp: a value and its rate of change along one direction.

Warp's vectors, matrices, quaternions and transforms, and their functions, are C++ templates over the scalar type. With
dual numbers as the scalar they all compute rates. Comparisons look at values only, so the branches are those of the
plain code. At a kink (`min`, `max`, `clamp`, `abs`) the rate is that of Warp's adjoint; the rate of √ at 0 is 0.

Warp 1.19 lists its scalar types in tables and has no function to add one. `dual_type` writes into these tables.
"""

import ast
import ctypes

import warp as wp
from warp._src import builtins, codegen, context, types

# Functions of one number a, and their derivatives at a; y is the value of the function.
ONE = {
    "sqrt": "y > T(0) ? T(0.5) / y : T(0)",
    "exp": "y",
    "log": "T(1) / a.value",
    "sin": "cos(a.value)",
    "cos": "-sin(a.value)",
    "tanh": "T(1) - y * y",
    "atan": "T(1) / (T(1) + a.value * a.value)",
}
DUALS = """
namespace wp {
#define EACH template <typename T> CUDA_CALLABLE inline
template <typename T> struct dual {
    T value, rate;
    CUDA_CALLABLE inline dual() : value(), rate() {}
    CUDA_CALLABLE inline dual(T x) : value(x), rate() {}
    CUDA_CALLABLE inline dual(T x, T rate) : value(x), rate(rate) {}
    template <typename U> CUDA_CALLABLE inline explicit dual(U x) : value(T(x)), rate() {}
};
typedef dual<float> dual32;
typedef dual<double> dual64;
EACH dual<T> operator-(dual<T> a) { return {-a.value, -a.rate}; }
EACH dual<T> operator+(dual<T> a, dual<T> b) { return {a.value + b.value, a.rate + b.rate}; }
EACH dual<T> operator-(dual<T> a, dual<T> b) { return {a.value - b.value, a.rate - b.rate}; }
EACH dual<T> operator*(dual<T> a, dual<T> b) { return {a.value * b.value, a.rate * b.value + a.value * b.rate}; }
EACH dual<T> operator/(dual<T> a, dual<T> b)
{
    const T x = a.value / b.value;
    return {x, (a.rate - x * b.rate) / b.value};
}
EACH dual<T>& operator+=(dual<T>& a, dual<T> b) { return a = a + b; }
EACH dual<T>& operator-=(dual<T>& a, dual<T> b) { return a = a - b; }
EACH dual<T>& operator*=(dual<T>& a, dual<T> b) { return a = a * b; }
EACH dual<T>& operator/=(dual<T>& a, dual<T> b) { return a = a / b; }
EACH dual<T> add(dual<T> a, dual<T> b) { return a + b; }
EACH dual<T> sub(dual<T> a, dual<T> b) { return a - b; }
EACH dual<T> mul(dual<T> a, dual<T> b) { return a * b; }
EACH dual<T> div(dual<T> a, dual<T> b) { return a / b; }
EACH dual<T> approx_div(dual<T> a, dual<T> b) { return a / b; }
EACH dual<T> approx_rcp(dual<T> a) { return dual<T>(T(1)) / a; }
EACH dual<T> neg(dual<T> a) { return -a; }
EACH dual<T> abs(dual<T> a) { return a.value < T(0) ? -a : a; }
EACH dual<T> sign(dual<T> a) { return {sign(a.value), T(0)}; }
EACH dual<T> min(dual<T> a, dual<T> b) { return b.value == min(a.value, b.value) ? b : a; }
EACH dual<T> max(dual<T> a, dual<T> b) { return b.value == max(a.value, b.value) ? b : a; }
EACH dual<T> clamp(dual<T> a, dual<T> low, dual<T> high) { return min(high, max(low, a)); }
EACH dual<T> pow(dual<T> a, dual<T> b)
{
    const T y = pow(a.value, b.value);
    const T by_b = b.rate == T(0) ? T(0) : y * log(a.value) * b.rate;
    return {y, b.value * pow(a.value, b.value - T(1)) * a.rate + by_b};
}
EACH dual<T> atan2(dual<T> a, dual<T> b)
{
    return {atan2(a.value, b.value), (b.value * a.rate - a.value * b.rate) / (a.value * a.value + b.value * b.value)};
}
EACH bool isnan(dual<T> a) { return isnan(a.value); }
EACH bool isfinite(dual<T> a) { return isfinite(a.value); }
EACH dual<T> atomic_add(dual<T>* to, dual<T> a)  // named, never run, in what Warp writes about structs
{
    const dual<T> before = *to;
    *to = before + a;
    return before;
}
"""
for _each in ("<", ">", "<=", ">=", "==", "!="):
    DUALS += f"EACH bool operator{_each}(dual<T> a, dual<T> b) {{ return a.value {_each} b.value; }}\n"
for _name, _slope in ONE.items():
    DUALS += f"EACH dual<T> {_name}(dual<T> a)\n{{\n    const T y = {_name}(a.value);\n"
    DUALS += f"    return {{y, ({_slope}) * a.rate}};\n}}\n"
DUALS += "#undef EACH\n}\n"

_made: dict[type, type] = {}


def dual_type(real: type) -> type:
    """The type of dual numbers over `real` (`wp.float32` or `wp.float64`). Modules that use it begin with `DUALS`."""
    if real not in _made:
        pair = type("pair", (ctypes.Structure,), {"_fields_": [("value", real._type_), ("rate", real._type_)]})
        made = type(f"dual{real.__name__[-2:]}", (types.float_base,), {"_length_": 1, "_type_": pair, "text": DUALS})
        _add_scalar(made, real)
        _made[real] = made
    return _made[real]


def _add_scalar(made: type, real: type) -> None:
    """Add a scalar type to Warp's tables, with its type code for hashes, conversions to it, and its constants."""
    for module in (types, codegen, context, builtins):
        for name in ("float_types", "scalar_types", "scalar_and_bool_types", "value_types"):
            if isinstance(getattr(module, name, None), tuple):
                setattr(module, name, (*getattr(module, name), made))
    types.simple_type_codes[made] = made.__name__
    for other in (*types.int_types, int, float, real, made):
        options = {"namespace": "wp::", "hidden": True, "export": False, "is_differentiable": False}
        context.add_builtin(made.__name__, {"a": other}, value_type=made, **options)
    calls = codegen.Adjoint.node_visitors
    emit_other = calls[ast.Call]

    def emit_Call(adj, node, *more, **options):
        # emit `num(0.1)` in full precision, as Warp does for its own 64-bit types only
        if len(node.args) == 1 and isinstance(node.args[0], (ast.Constant, ast.Name, ast.Attribute, ast.UnaryOp)):
            if adj.resolve_static_expression(node.func)[0] is made:
                given = adj.eval(node.args[0])
                number = getattr(given, "constant", None)
                number = getattr(number, "value", number)
                if isinstance(number, (int, float)):
                    found = adj.add_var(made)
                    adj.add_forward(f"{found.emit()} = {codegen.constant_str(wp.float64(number))};")
                    return found
        return emit_other(adj, node, *more, **options)

    calls[ast.Call] = emit_Call
