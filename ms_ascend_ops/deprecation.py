"""Keeps names for a release after they have changed."""

import functools
import warnings
from collections.abc import Callable
from typing import Any


def renamed_argument(old: str, new: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function that takes the keyword `old`, too, for `new`, and warns (DeprecationWarning)."""

    def decorator(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if old in kwargs:
                if new in kwargs:
                    raise TypeError(f"{function.__qualname__}: {old} is the old name of {new}: give one of them")
                warn_renamed(f"{function.__qualname__}: {old}", new, stacklevel=3)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return wrapper

    return decorator


def warn_renamed(old: str, new: str, stacklevel: int = 3) -> None:
    """Say that a name has changed. `stacklevel`: 2 is the caller of this function."""
    warnings.warn(f"{old} is now called {new}; the old name goes with release 0.3", DeprecationWarning, stacklevel)


def warn_needless(name: str, reason: str, stacklevel: int = 3) -> None:
    """Say that a name has no effect any more. `stacklevel`: 2 is the caller of this function."""
    warnings.warn(f"{name} has no effect: {reason}; it goes with release 0.3", DeprecationWarning, stacklevel)
