"""What can go wrong, by what the caller can do about it. Every error has a cause and a hint."""

from __future__ import annotations


class FarError(Exception):
    """Something was refused or failed: ``cause`` says what, ``hint`` what to do about it."""

    def __init__(self, cause: str, hint: str = "") -> None:
        super().__init__(cause, hint)
        self.cause = cause
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.cause} ({self.hint})" if self.hint else self.cause


class InputError(FarError, ValueError):
    """Arguments that do not fit: shapes, types, numbers that are not finite, unknown cues."""


class PolicyError(FarError, ValueError):
    """A rule that does not exist, or a setting that it does not take."""


class RetrieverError(FarError, ValueError):
    """A retriever's file, configuration or parameters that cannot be used."""


class StoreError(FarError):
    """A memory on disk that cannot be opened, read or written."""


class ClosedError(StoreError):
    """A memory that was closed."""


class ProcessError(FarError, RuntimeError):
    """A memory that was changed in another process than the one it belongs to."""


class DatasetError(FarError):
    """A dataset that cannot be read or written."""
