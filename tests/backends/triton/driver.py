"""A driver without a GPU, which takes the launches of kernels that Triton compiles for one."""

from __future__ import annotations

from typing import Any


class Driver:
    """Stands for a GPU and its driver: remembers every launch."""

    def __init__(self) -> None:
        from triton.backends.compiler import GPUTarget

        self.launches: list[Any] = []
        self.current = GPUTarget("cuda", 90, 32)
        self.utils = self

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> Any:
        return self.current

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {"max_shared_mem": 227 << 10}

    def load_binary(self, *_: Any) -> tuple[int, ...]:
        return 1, 1, 32, 0, 1024

    def launcher_cls(self, source: Any, metadata: Any) -> Any:
        """A launch as the compiled kernel, the grid, and what the GPU would be given."""
        form = source.signature, source.constants, source.attrs, metadata.num_warps

        def launch(*args: Any) -> None:
            given = zip(args[9:], source.signature.values(), strict=True)
            passed = [value for value, kind in given if kind != "constexpr"]
            self.launches.append((form, args[:3], passed))

        return launch
