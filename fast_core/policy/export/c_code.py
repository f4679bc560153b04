"""C from the graph of a policy: one loop for each operation, on arrays of fixed size.

The graph is that of torch.export in core ATen operations, for a single row. A value is an array
in C beside a tensor that stands for it: what only views it (permute, slice, expand, ...) is done
to that tensor, whose strides then say where the elements lie, and writes no C at all. What
depends on no input is computed here and now.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch._decomp import core_aten_decompositions, get_decompositions
from torch.export import ExportedProgram
from torch.fx import Node

from fast_core.policy.export.c_formulas import DEFAULTS, FUNCTIONS, TYPES, formula

CALL = re.compile(rf"\b({'|'.join(FUNCTIONS)})\(")
DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.])")
IGNORED = ("_assert_tensor_metadata", "_assert_scalar", "sym_constrain_range_for_size")
INDENT = "    "


def decomposed(program: ExportedProgram) -> ExportedProgram:
    """The graph in core ATen operations, softmax and layer norm in what they are made of."""
    aten = torch.ops.aten
    table: Any = core_aten_decompositions()
    table.update(get_decompositions([aten._softmax, aten._log_softmax]))
    table[aten.native_layer_norm.default] = _layer_norm
    made: ExportedProgram = program.run_decompositions(table)
    return made


def _layer_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """By means: torch's own is by ``var_mean``, which has two results."""
    axes = list(range(x.dim() - len(shape), x.dim()))
    mean = x.mean(axes, keepdim=True)
    centred = x - mean
    scale = torch.rsqrt((centred * centred).mean(axes, keepdim=True) + epsilon)
    made = centred * scale if weight is None else centred * scale * weight
    return made if bias is None else made + bias, mean, scale


class UnknownInC(Exception):
    """An operation that isn't written here; its name is the message."""


@dataclass(frozen=True)
class Value:
    """An array in C, or a view of one.

    Attributes:
        name: Of the array; empty of constants, which get one when they are read.
        tensor: Stands for it: shape, dtype, strides and offset; of constants the numbers too.
    """

    name: str
    tensor: Tensor

    @property
    def constant(self) -> bool:
        """Whether it is known already."""
        return not self.name

    def at(self, *index: str) -> str:
        """The element at ``index``, which has as many axes."""
        tensor = self.tensor
        terms = [
            name if stride == 1 else f"{name} * {stride}"
            for name, stride, size in zip(index, tensor.stride(), tensor.shape, strict=True)
            if size > 1 and stride
        ]
        if tensor.storage_offset() or not terms:
            terms.append(str(tensor.storage_offset()))
        return f"{self.name}[{' + '.join(terms)}]"

    def spread(self, shape: Sequence[int]) -> Value:
        """The same, broadcast."""
        return Value(self.name, self.tensor.expand(tuple(shape)))


Result = Value | list[Value]


class Translation:
    """The C of one graph.

    Args:
        program: The graph, for one row.
        inputs: Names of the C arrays that hold its inputs, which are float.
        prefix: What names of constants begin with.

    Attributes:
        constants: Definitions of the arrays that are read.
        statements: What computes.
        outputs: Where the outputs are then.

    Raises:
        UnknownInC: An operation has no translation.
    """

    def __init__(self, program: ExportedProgram, inputs: Sequence[str], prefix: str) -> None:
        self.constants: list[str] = []
        self.statements: list[str] = []
        self._prefix = prefix
        self._names: dict[tuple[int, int, torch.dtype], str] = {}
        self._kept: list[Tensor] = []  # constants with a name, whose addresses must not come again
        self._results: dict[Node, Result] = {}
        self._whole: set[Node] = set()  # whose array is theirs alone
        self._arrays = 0
        names = iter(inputs)
        for node in program.graph.nodes:
            if node.op == "placeholder":
                known = _constant(program, node.name)
                fake = node.meta["val"]
                self._results[node] = (
                    Value(next(names), torch.empty(fake.shape, dtype=fake.dtype))
                    if known is None
                    else Value("", known.detach())
                )
            elif node.op == "call_function":
                self._translate(node)
        by_name = {node.name: result for node, result in self._results.items()}
        outputs = [by_name[str(name)] for name in program.graph_signature.user_outputs]
        self.outputs = [self._named(cast("Value", output)) for output in outputs]

    def _translate(self, node: Node) -> None:
        arguments = [self._argument(each) for each in node.args]
        if node.target is operator.getitem:
            several, place = cast("tuple[list[Value], int]", arguments)
            if place < len(several):  # the others are never used
                self._results[node] = several[place]
            return
        target = node.target
        if not isinstance(target, torch._ops.OpOverload):
            raise UnknownInC(str(target))
        name = target._schema.name.removeprefix("aten::")
        if name in IGNORED:
            return
        if all(value.constant for value in _values(arguments)):
            self._results[node] = _applied(target, arguments, node, "")
        elif any(each.alias_info is not None for each in target._schema.returns):
            self._results[node] = self._viewed(target, arguments, node)
        else:
            self._results[node] = self._written(name, target, arguments, node)
            self._whole.add(node)

    def _argument(self, argument: object) -> object:
        if isinstance(argument, Node):
            return self._results.get(argument)
        if isinstance(argument, list | tuple):
            return [self._argument(each) for each in argument]
        return argument

    def _viewed(self, target: torch._ops.OpOverload, arguments: list[object], node: Node) -> Result:
        value = cast("Value", arguments[0])
        try:
            return _applied(target, arguments, node, value.name)
        except RuntimeError:  # its elements lie in another order
            copy = self._array(value.tensor)
            self._copy(copy, value)
            return _applied(target, [copy, *arguments[1:]], node, copy.name)

    def _written(
        self, name: str, target: torch._ops.OpOverload, arguments: list[object], node: Node
    ) -> Result:
        made = node.meta["val"]
        like = made if isinstance(made, Tensor) else made[0]
        if like.dtype not in TYPES:
            raise UnknownInC(f"{target} of {like.dtype}")
        found = formula(name, arguments, node)
        if found is not None:
            return self._elements(found, name, arguments, node)
        special = _SPECIAL.get(name)
        if special is None:
            raise UnknownInC(str(target))
        out = self._array(like)
        special(self, out, arguments, node)
        return out if isinstance(made, Tensor) else [out]

    # --- what operations write -----------------------------------------------------------------

    def _elements(self, formula: str, name: str, arguments: list[object], node: Node) -> Value:
        like = node.meta["val"]
        defaults = DEFAULTS.get(name, ())
        arguments = arguments + list(defaults[len(arguments) - 1 :])
        operands = [each for each in arguments if isinstance(each, Value | bool | int | float)]
        dtypes = [each.tensor.dtype for each in operands if isinstance(each, Value)]
        single = torch.float64 not in (like.dtype, *dtypes)
        if single:
            formula = DECIMAL.sub(lambda found: f"{found[0]}f", CALL.sub(r"\1f(", formula))
        first = node.args[0]
        reused = (
            isinstance(first, Node)
            and first in self._whole
            and len(first.users) == 1
            and first.meta["val"].shape == like.shape
            and first.meta["val"].dtype == like.dtype
        )
        out = cast("Value", arguments[0]) if reused else self._array(like)
        known = [
            self._named(each).spread(like.shape) if isinstance(each, Value) else each
            for each in operands
        ]

        def line(*index: str) -> str:
            texts = [
                each.at(*index) if isinstance(each, Value) else _number(each, single=single)
                for each in known
            ]
            value = formula.format(**dict(zip("xyzw", texts, strict=False)))
            if name == "_to_copy" and like.dtype == torch.bool:
                value = f"{value} != 0"
            elif any(dtype != like.dtype for dtype in dtypes):
                value = f"({TYPES[like.dtype]})({value})"
            return f"{out.at(*index)} = {value};"

        self._loops(like.shape, line)
        return out

    def _product(self, out: Value, a: Value, b: Value, bias: Value | None) -> None:
        """``out[..., m, n] = bias + sum over k of a[..., m, k] * b[..., k, n]``."""
        a, b = self._named(a), self._named(b)
        bias = None if bias is None else self._named(bias).spread(out.tensor.shape)
        kind, inner = TYPES[out.tensor.dtype], a.tensor.shape[-1]

        def lines(*index: str) -> list[str]:
            *first, row, column = index
            start = "0" if bias is None else bias.at(*index)
            product = f"{a.at(*first, row, 'k')} * {b.at(*first, 'k', column)}"
            return [
                f"{kind} sum = {start};",
                f"for (int k = 0; k < {inner}; ++k)",
                f"{INDENT}sum += {product};",
                f"{out.at(*index)} = sum;",
            ]

        self._loops(out.tensor.shape, lines)

    def _addmm(self, out: Value, arguments: list[object], node: Node) -> None:
        if node.kwargs:
            raise UnknownInC(f"addmm with {', '.join(node.kwargs)}")
        bias, a, b = cast("list[Value]", arguments)
        self._product(out, a, b, bias)

    def _mm(self, out: Value, arguments: list[object], node: Node) -> None:
        a, b = cast("list[Value]", arguments)
        self._product(out, a, b, None)

    def _cat(self, out: Value, arguments: list[object], node: Node) -> None:
        axis = cast("int", arguments[1]) if len(arguments) > 1 else 0
        place = 0
        for part in map(self._named, cast("list[Value]", arguments[0])):
            size = part.tensor.shape[axis]
            target = Value(out.name, out.tensor.narrow(axis, place, size))
            self._copy(target, part)
            place += size

    def _copy(self, target: Value, source: Value) -> None:
        self._loops(target.tensor.shape, lambda *i: f"{target.at(*i)} = {source.at(*i)};")

    def _reduce(
        self,
        out: Value,
        value: Value,
        axes: Sequence[int],
        begin: Sequence[str],
        each: Callable[[str, str], Sequence[str]],
        end: Sequence[str],
    ) -> None:
        """Go through the elements of ``axes`` for each place of ``out``.

        Args:
            out: What is written, with or without the axes.
            value: What is read.
            axes: Which.
            begin: Statements before the elements.
            each: Statements for one element and its place, counted over the axes.
            end: Statements after them; ``{out}`` is the place that is written.
        """
        value = self._named(value)
        rank = value.tensor.dim()
        axes = [axis % rank for axis in axes] or list(range(rank))
        kept = [axis for axis in range(rank) if axis not in axes]
        shape = value.tensor.shape
        ones = [1 if axis in axes else shape[axis] for axis in range(rank)]
        full = Value(out.name, out.tensor.reshape(ones))

        def lines(*index: str) -> list[str]:
            at = dict(zip(kept, index, strict=True))
            places = [at.get(axis, f"j{axis}") for axis in range(rank)]
            count = "0"
            for axis in axes:
                if shape[axis] > 1:  # of one element there is no loop
                    count = f"j{axis}" if count == "0" else f"({count}) * {shape[axis]} + j{axis}"
            inner = _nested(
                [(f"j{axis}", shape[axis]) for axis in axes],
                list(each(value.at(*places), count)),
            )
            target = full.at(*[at.get(axis, "0") for axis in range(rank)])
            return [*begin, *inner, *(line.replace("{out}", target) for line in end)]

        self._loops([shape[axis] for axis in kept], lines)

    def _total(self, out: Value, arguments: list[object], node: Node) -> None:
        """A sum, mean or extreme over some axes."""
        name = cast("torch._ops.OpOverload", node.target)._schema.name.removeprefix("aten::")
        value, *rest = arguments
        assert isinstance(value, Value)
        axes = rest[0] if rest and rest[0] is not None else []
        axes = [axes] if isinstance(axes, int) else cast("list[int]", axes)
        kind = TYPES[out.tensor.dtype]
        if name in ("sum", "mean"):
            size = math.prod(value.tensor.shape[axis] for axis in axes or range(value.tensor.dim()))
            share = f" / {size}" if name == "mean" else ""
            begin, end = [f"{kind} sum = 0;"], [f"{{out}} = sum{share};"]
            self._reduce(out, value, axes, begin, lambda x, at: [f"sum += {x};"], end)
        else:
            sign = ">" if name == "amax" else "<"
            self._extreme(out, value, axes, sign, place=False)

    def _extreme(
        self, out: Value, value: Value, axes: Sequence[int], sign: str, *, place: bool
    ) -> None:
        kind = TYPES[value.tensor.dtype]
        begin = [f"{kind} best = 0;", "int found = -1;"]

        def each(x: str, at: str) -> list[str]:
            return [
                f"if (found < 0 || {x} {sign} best) {{",
                f"{INDENT}best = {x};",
                f"{INDENT}found = {at};",
                "}",
            ]

        self._reduce(out, value, axes, begin, each, [f"{{out}} = {'found' if place else 'best'};"])

    def _argmax(self, out: Value, arguments: list[object], node: Node) -> None:
        value, *rest = arguments
        axes = [rest[0]] if rest and rest[0] is not None else []
        self._extreme(out, cast("Value", value), cast("list[int]", axes), ">", place=True)

    def _index_select(self, out: Value, arguments: list[object], node: Node) -> None:
        value, axis, index = cast("tuple[Value, int, Value]", arguments)
        value, index = self._named(value), self._named(index)

        def line(*i: str) -> str:
            place = list(i)
            place[axis] = f"({index.at(i[axis])})"
            return f"{out.at(*i)} = {value.at(*place)};"

        self._loops(out.tensor.shape, line)

    # --- arrays and loops ----------------------------------------------------------------------

    def _named(self, value: Value) -> Value:
        """The value; of a constant with an array that holds it."""
        if not value.constant:
            return value
        tensor = value.tensor
        if torch.empty_like(tensor).stride() != tensor.stride() or tensor.dim() == 0:
            tensor = tensor.contiguous()  # more than a permutation
        numbers = tensor.as_strided((tensor.numel(),), (1,), tensor.storage_offset())
        key = (tensor.data_ptr(), tensor.numel(), tensor.dtype)
        if key not in self._names:
            if tensor.dtype not in TYPES:
                raise UnknownInC(f"a constant of {tensor.dtype}")
            self._names[key] = f"{self._prefix}_{len(self._names)}"
            self._kept.append(tensor)
            self.constants.append(_definition(self._names[key], numbers))
        place = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
        return Value(self._names[key], place)

    def _array(self, like: Tensor) -> Value:
        """A new array."""
        name = f"v{self._arrays}"
        self._arrays += 1
        self.statements.append(f"{TYPES[like.dtype]} {name}[{max(like.numel(), 1)}];")
        return Value(name, torch.empty(like.shape, dtype=like.dtype))

    def _loops(self, shape: Sequence[int], body: Callable[..., str | list[str]]) -> None:
        self.statements += loops(shape, body)


def loops(shape: Sequence[int], body: Callable[..., str | list[str]]) -> list[str]:
    """Statements for each index of an array; ``body`` is given the names of the indices."""
    names = [f"i{axis}" for axis in range(len(shape))]
    lines = body(*names)
    return _nested(
        list(zip(names, shape, strict=True)), [lines] if isinstance(lines, str) else lines
    )


def copied_into(name: str, value: Value, kind: str) -> list[str]:
    """Statements that copy a value to consecutive elements of an array of another type."""
    into = Value(name, torch.empty(value.tensor.shape))
    return loops(into.tensor.shape, lambda *i: f"{into.at(*i)} = ({kind}){value.at(*i)};")


def _nested(counters: list[tuple[str, int]], lines: list[str]) -> list[str]:
    """Loops over counters, those of one place left out; ``lines`` in a block of their own."""
    counters = [(name, size) for name, size in counters if size != 1]
    if not counters:
        return lines if len(lines) == 1 else ["{", *(INDENT + line for line in lines), "}"]
    *outer, (name, size) = counters
    block = [f"for (int {name} = 0; {name} < {size}; ++{name}) {{"]
    block += [INDENT + line for line in lines]
    block.append("}")
    return _nested(outer, block) if outer else block


def _applied(
    target: torch._ops.OpOverload, arguments: list[object], node: Node, name: str
) -> Result:
    """Do an operation to what stands for its arguments."""

    def tensor(argument: object) -> object:
        if isinstance(argument, list):
            return [tensor(each) for each in argument]
        return argument.tensor if isinstance(argument, Value) else argument

    made = target(*map(tensor, arguments), **node.kwargs)
    if isinstance(made, Tensor):
        return Value(name, made)
    return [Value(name, each) for each in made]


def _values(arguments: Sequence[object]) -> list[Value]:
    found = []
    for argument in arguments:
        if isinstance(argument, list):
            found += _values(argument)
        elif isinstance(argument, Value):
            found.append(argument)
    return found


def _constant(program: ExportedProgram, name: str) -> Tensor | None:
    """A parameter, buffer or constant by the name of its placeholder; None for an input."""
    signature = program.graph_signature
    for names in (signature.inputs_to_parameters, signature.inputs_to_buffers):
        if name in names:
            own = names[name]
            held = program.state_dict if own in program.state_dict else program.constants
            return cast("Tensor", held[own])
    constants = signature.inputs_to_lifted_tensor_constants
    return cast("Tensor", program.constants[constants[name]]) if name in constants else None


def _definition(name: str, numbers: Tensor) -> str:
    single = numbers.dtype != torch.float64
    texts = [_number(each, single=single) for each in numbers.tolist()] or ["0"]
    lines, line = [], INDENT
    for text in texts:
        if len(line) + len(text) > 96:
            lines.append(line.rstrip())
            line = INDENT
        line += f"{text}, "
    lines.append(line.rstrip().rstrip(","))
    kind = TYPES[numbers.dtype]
    return f"static const {kind} {name}[{len(texts)}] = {{\n" + "\n".join(lines) + "\n};"


def _number(number: bool | int | float, *, single: bool) -> str:
    """A literal; of a float with as many digits as it needs."""
    if isinstance(number, bool | int):
        value = int(number)
        return f"{value}" if abs(value) < 2**31 else f"{value}LL"
    suffix = "f" if single else ""
    if math.isinf(number):
        return f"{'-' if number < 0 else ''}HUGE_VAL{suffix.upper()}"
    text = f"{number:.9g}" if single else f"{number:.17g}"
    return text + ("" if any(mark in text for mark in ".e") else ".0") + suffix


_Special = Callable[[Translation, Value, list[object], Node], None]
_SPECIAL: dict[str, _Special] = {
    "addmm": Translation._addmm,
    "mm": Translation._mm,
    "bmm": Translation._mm,
    "cat": Translation._cat,
    "argmax": Translation._argmax,
    "sum": Translation._total,
    "mean": Translation._total,
    "amax": Translation._total,
    "amin": Translation._total,
    "index_select": Translation._index_select,
}
