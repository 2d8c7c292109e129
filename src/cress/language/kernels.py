"""Compiled functions (kernels) that run interpreted until their machine code is in the cache.

numba compiles a function at its first call, which takes a second or more. After an installation, a live cluster cannot
wait a minute for all kernels. It interprets the kernels that are not compiled yet, while another process compiles them.
Interpreted kernels do the same operations in the same order, so decisions do not depend on the way a kernel runs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher


class Kernels:
    """The kernels of some modules. At first they behave as usual in numba: compiled at the first call."""

    def __init__(self, *modules: ModuleType) -> None:
        # A kernel is found again in every module that imports it, which is harmless.
        self._kernels: tuple[Any, ...] = tuple(
            value for module in modules for value in vars(module).values() if isinstance(value, Dispatcher)
        )
        self._missing: set[str] = set()

    @property
    def missing(self) -> bool:
        """Return whether a kernel was interpreted because it is not in the cache."""
        return bool(self._missing)

    def interpret(self) -> None:
        """From now on, interpret a kernel that is neither loaded nor in the cache.

        The cache is searched once for each kernel.
        """
        self._missing.clear()
        for kernel in self._kernels:
            kernel._compiler.compile = _refuse  # noqa: SLF001 – numba has no other way in
            kernel._compile_for_args = partial(self._resolve, kernel, _interpreted(kernel.py_func))  # noqa: SLF001

    def compile(self) -> None:
        """From now on, compile a kernel that is neither loaded nor in the cache when it is called."""
        for kernel in self._kernels:
            kernel.__dict__.pop("_compile_for_args", None)
            kernel._compiler.__dict__.pop("compile", None)  # noqa: SLF001

    def _resolve(self, kernel: Any, interpreted: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
        """Return the function that numba calls if no loaded code takes these arguments."""
        if kernel.__name__ not in self._missing:
            try:
                code: Callable[..., Any] = type(kernel)._compile_for_args(kernel, *arguments)  # noqa: SLF001
            except _NotCached:
                self._missing.add(kernel.__name__)
            else:
                return code
        return interpreted


class _NotCached(Exception):
    """Error: the cache has no machine code for these arguments."""


def _refuse(*_arguments: Any) -> None:
    raise _NotCached


def _interpreted(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return _plain(function(*arguments))

    return call


def _plain(value: Any) -> Any:
    """Return the value that compiled code returns for a scalar of numpy."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return value.item() if isinstance(value, np.generic) else value
