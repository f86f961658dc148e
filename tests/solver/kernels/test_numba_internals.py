# SPDX-License-Identifier: Apache-2.0
"""What breaks when Numba changes what it does not document, and that one module alone uses that.

- `FunctionCache`, `CUDACache`, `_index_key`, `_cache`: without them each run compiles its loops and kernels again.
- `load_overload`, and a dispatcher's `compile`: without them ranks that begin together compile the same loops.
- `CPUDispatcher`, `_compiler`, `add_overload`, `_compile_for_args`: without them each function of a node is compiled
  for calls from Python, too, and the first run of a model takes half as long again.
- `_FunctionCompiler`, `Flags`, `compile_extra`, `JITCodeLibrary`, `insert_user_function`: without them each function of
  a node is optimised and made machine code by itself, too, before it is with the loop that calls it.
- `_library_class`, `_finalize_final_module`, `_optimize_final_module`, `_get_compiled_object`, `global_compiler_lock`,
  `_create_gufunc_for_parfor_body`: without them machine code is made four times of a parallel loop, and compilation
  takes a fifth longer.
- `host_to_device`, `device_to_host`: without them the host takes 0.1 ms longer to send boundary values to a device.
- `IpcHandle`, `open_direct`, `_ipc_handle`, `DeviceNDArray`, `binding`: without them messages between devices go
  through the host.
- `FakeCUDAArray`: without it simulators share no memory, and such messages cannot be tested.
- `cgutils`, `ir`: without them nothing is prefetched, devices do not wait for each other, and there are no vectors.
- The data model, templates and lowering: without them there are no vectors of nodes. The `metadata` of a template:
  without it Numba asks for vectors last, and takes half as long again to find types.
- `TargetConfig`, `options`, `_values`, `Inst`, `_rec_list_vars`: without them compilation takes a fifth longer.
- `NRTContext`, `get_meminfos`, `_context`, `BaseFunction`, `get_call_type`, `get_local_target`: without them
  compilation takes a sixth longer.
- `get_host_cpu_features`: without it vectors are 32 bytes wide, and fp16 is converted in software.
"""

import ast
import ctypes
import operator
from types import SimpleNamespace

import numpy as np
import pytest
from numba import TypingError, config, guvectorize, njit, prange, types
from numba.core import ir as numba_ir
from numba.core.codegen import JITCPUCodegen
from numba.core.compiler import Flags, run_frontend
from numba.core.registry import cpu_target
from numba.core.runtime.context import NRTContext

from solver.kernels import numba_internals
from solver.kernels.compilation import cached_njit
from solver.kernels.node_physics import OPTIONS, node_function
from solver.runtime.sources import ROOT

INTERNALS = "solver/kernels/numba_internals.py"
DOCUMENTED = {"numba", "numba.extending", "numba.cuda", "numba.cuda.extending", "numba.core.event"}


def imported(text: str) -> set[str]:
    """Modules of Numba that a module imports."""
    nodes = list(ast.walk(ast.parse(text)))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name for name in names if name.split(".")[0] == "numba"}


def test_one_module_reaches_what_numba_does_not_document():
    for room in ("solver", "pipeline", "validation"):
        for file in (ROOT / room).rglob("*.py"):
            if file.relative_to(ROOT).as_posix() == INTERNALS:
                continue
            text = file.read_text(encoding="utf-8")
            assert "numba" not in text or imported(text) <= DOCUMENTED, file
            assert "._cache" not in text, file


def test_names_of_inner_modules_are_there():
    for name in numba_internals.__all__:
        assert hasattr(numba_internals, name), name
    assert {"voidptr_t", "int32_t"} <= set(dir(numba_internals.cgutils))
    assert "+" in numba_internals.get_host_cpu_features()


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_a_loop_is_found_on_disk_by_its_digest(tmp_path, monkeypatch):
    """A second dispatcher of the same function loads what the first compiled; one of another digest does not."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    def double(x):
        return 2 * x

    def compiled(digest: str):
        return numba_internals.keep(njit(double), numba_internals.KernelCache(double, lambda: digest))

    first, again, other = compiled("a"), compiled("a"), compiled("b")
    for function, hits in ((first, 0), (again, 1), (other, 0)):
        assert function(3) == 6
        assert sum(function.stats.cache_hits.values()) == hits


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_a_loop_that_another_process_compiles_is_waited_for(tmp_path, monkeypatch):
    """The turn is begun where nothing is on disk, looks there again, and is ended whatever comes of it."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    said: list[str] = []

    class Waiting:
        """Of a loop that another compiles meanwhile, if there is another."""

        def __init__(self, thing: str) -> None:
            assert str(tmp_path) in thing

        def begin(self) -> None:
            said.append("begin")
            if others:
                others.pop()(3)

        def end(self) -> None:
            said.append("end")

    def double(x):
        return 2 * x

    def compiled(function):
        return numba_internals.keep(njit(function), numba_internals.KernelCache(function, lambda: function.__name__))

    monkeypatch.setattr(numba_internals, "Turn", Waiting)
    others = [other := compiled(double)]
    assert (here := compiled(double))(3) == 6
    assert [sum(each.stats.cache_hits.values()) for each in (other, here)] == [0, 1]
    assert said == ["begin", "begin", "end", "end"]

    def wrong(x):
        return x.of_no_number

    with pytest.raises(TypingError):
        compiled(wrong)(3)
    assert said[4:] == ["begin", "end"]


def variables(part):
    """Numba's own way to list them."""
    if isinstance(part, numba_ir.Var):
        return [part]
    if isinstance(part, numba_ir.Inst):
        return part.list_vars()
    parts = part.values() if isinstance(part, dict) else part if isinstance(part, list | tuple) else []
    return [found for each in parts for found in variables(each)]


def test_options_and_variables_are_those_that_numba_finds_by_itself():
    """Options that are set and that are not; variables of all instructions of a function, in their order."""
    options = Flags()
    options.nrt, options.fastmath = True, True
    assert options.values() == {name: getattr(options, name) for name in options.options}
    assert options == options.copy()
    assert options != Flags()

    def several(x, *, by=(1, 2)):
        total = [x, by[0]]
        for each in range(3):
            total += [{"a": x + each}["a"] * by[1]]
        return total[x:None], f"{total}"

    found = [stmt for block in run_frontend(several).blocks.values() for stmt in block.body]
    assert len(found) > 20
    for statement in found:
        assert statement.list_vars() == variables(vars(statement))


def memory_in(nrt, builder, kind, value):
    """Numba's own way to list what memory a value has."""
    model = nrt._context.data_model_manager[kind]
    found = [(kind, model.get_nrt_meminfo(builder, value))] if model.has_nrt_meminfo() else []
    parts = [(part, of_value(value)) for part, of_value in model.traverse(builder)]
    return found + [each for part in parts for each in memory_in(nrt, builder, *part)]


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        (types.float64, 0),
        (types.UniTuple(types.float32, 27), 0),
        (types.float64[:, ::1], 1),
        (types.Tuple([types.float64[::1], types.int64, types.UniTuple(types.float64[:], 2)]), 3),
        (types.Optional(types.float64[:]), 1),
        (types.ListType(types.int64), 1),
    ],
    ids=str,
)
def test_memory_in_a_value_is_what_numba_finds_by_itself(kind, count):
    """In its order; instructions that take a value to pieces are none where it has no memory."""
    ir, context = numba_internals.ir, cpu_target.target_context
    place = context.get_value_type(kind)

    def taken(value) -> str:
        """How a value is taken from the argument."""
        parts = [taken(each) for each in getattr(value, "operands", ())]
        return f"{value.opname} {getattr(value, 'indices', '')} {parts}" if parts else str(value)

    def listed(find) -> tuple[list[tuple[str, str]], int]:
        function = ir.Function(ir.Module(), ir.FunctionType(ir.VoidType(), [place]), "of")
        builder = ir.IRBuilder(function.append_basic_block())
        found = find(NRTContext(context, True), builder, kind, function.args[0])
        return [(str(each), taken(value)) for each, value in found], len(builder.block.instructions)

    (found, few), (wanted, many) = listed(NRTContext.get_meminfos), listed(memory_in)
    assert found == wanted
    assert len(found) == count
    assert few == 0 if count == 0 else few < many


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_calls_have_the_signatures_that_numba_finds_by_itself():
    """First and again, of scalars, literals and arrays; what has none is refused each time."""
    context = cpu_target.typing_context
    context.refresh()
    for name, given in (
        (operator.mul, (types.float32, types.float64)),
        (operator.add, (types.int64, types.literal(1))),
        (operator.getitem, (types.float64[:, ::1], types.UniTuple(types.int64, 2))),
        (np.searchsorted, (types.int64[::1], types.int64)),
    ):
        function = context.resolve_value_type(name)
        wanted = numba_internals._find_call_type(function, context, given, {})
        first, again = (function.get_call_type(context, given, {}) for _ in range(2))
        assert first is again
        assert (first, function.get_impl_key(first)) == (wanted, function.get_impl_key(wanted))
    for _ in range(2):
        with pytest.raises(TypingError):
            context.resolve_value_type(operator.mul).get_call_type(context, (types.none, types.none), {})


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_a_loop_has_nothing_that_c_would_call_it_by():
    @cached_njit(cache=False)
    def plus_one(x):
        return x + 1

    assert plus_one(1) == 2
    (loop,) = plus_one.overloads.values()
    assert "cpython" in loop.library.get_llvm_str()
    assert "cfunc" not in loop.library.get_llvm_str()


@pytest.mark.skipif(config.ENABLE_CUDASIM, reason="the simulator has no memory of other processes")
def test_memory_of_another_process_is_opened_by_its_handle(monkeypatch):
    from numba.cuda.cudadrv import driver

    handle, opened = driver.binding.CUipcMemHandle(), []
    ctypes.memmove(handle.getPtr(), bytes(range(64)), 64)
    array = SimpleNamespace(
        get_ipc_handle=lambda: SimpleNamespace(_ipc_handle=driver.IpcHandle(None, handle, 8, offset=16))
    )
    monkeypatch.setattr("numba.cuda.current_context", lambda: None)
    monkeypatch.setattr(driver.IpcHandle, "open_direct", lambda held, context: opened.append(held))
    with pytest.raises(Exception, match="CUDA"):  # of an array that is in no memory
        numba_internals.opened_memory(numba_internals.memory_handle(array))
    (held,) = opened
    assert (held.size, held.offset) == (8, 16)
    assert ctypes.string_at(held.handle.getPtr(), 64) == bytes(range(64))


def test_a_simulated_array_is_memory_of_the_host():
    memory = np.zeros(3)
    numba_internals.simulated_memory(memory)[1] = 2.0
    assert memory.tolist() == [0.0, 2.0, 0.0]


def test_a_kernel_keeps_its_results():
    @cached_njit(cache=False)
    def total(values):
        found = 0.0
        for value in values:
            found += value
        return found

    assert total(np.arange(5.0)) == 10.0


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_a_function_of_a_node_is_called_by_compiled_code_and_by_python():
    @node_function
    def plus_half(x):
        return x + 0.5

    @njit
    def twice(x):
        return 2 * plus_half(x)

    assert twice(1.0) == 3.0
    (inner,), (outer,) = plus_half.overloads.values(), twice.overloads.values()
    assert "cpython" in outer.library.get_llvm_str()
    assert "cpython" not in inner.library.get_llvm_str()
    assert not callable(inner.entry_point), "there is machine code of it alone"
    assert (plus_half(1.0), plus_half(x=2), twice(1.0)) == (1.5, 2.5, 3.0)
    assert (
        plus_half.targetoptions == njit(**OPTIONS)(plus_half.py_func).targetoptions
    )  # which kernels for CUDA take over


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_machine_code_is_made_once_of_a_parallel_loop(monkeypatch):
    """By Numba alone it is made of four modules that hold the loop's body."""
    modules: list[list[str]] = []
    add = JITCPUCodegen._add_module

    def noted(codegen, module):
        modules.append([function.name for function in module.functions if not function.is_declaration])
        add(codegen, module)

    monkeypatch.setattr(JITCPUCodegen, "_add_module", noted)

    @njit(parallel=True)
    def of_loop(values, found):
        for k in prange(len(values)):
            found[k] = values[k] / 2

    found = np.zeros(1000)
    of_loop(np.arange(1000.0), found)
    assert (found == np.arange(1000.0) / 2).all()
    assert sum(any("gufunc" in name for name in names) for names in modules) == 1
    assert sum(any("of_loop" in name for name in names) for names in modules) == 1


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_a_function_that_calls_itself_finds_its_address():
    @njit
    def factorial(n):
        return 1 if n < 2 else n * factorial(n - 1)

    assert factorial(10) == 3628800


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_a_generalised_function_is_kept_before_it_is_called(tmp_path, monkeypatch):
    """Its machine code is asked for by what keeps it, before anybody asks for its address."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    @guvectorize(["void(float64[:], float64[:])"], "(n)->()", cache=True)
    def total(values, found):
        found[0] = 0.0
        for value in values:
            found[0] += value

    assert list(tmp_path.rglob("*.nbc"))
    assert (total(np.ones((3, 4))) == 4.0).all()
