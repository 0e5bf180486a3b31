"""Take bounded pieces out of a compressed stream: no more is inflated than was asked for (I4)."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from skillquay.errors import ArchiveError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

__all__ = ["DEFLATE", "GZIP", "PIECE", "inflate", "read_pieces", "split"]

PIECE: Final = 256 * 1024
DEFLATE: Final = -zlib.MAX_WBITS
GZIP: Final = 16 + zlib.MAX_WBITS


def split(data: bytes | memoryview) -> Iterator[memoryview]:
    """The bytes in pieces, not copied."""
    view = memoryview(data)
    for start in range(0, len(view), PIECE):
        yield view[start : start + PIECE]


def read_pieces(data: bytes | BinaryIO, *, limit: int) -> Iterator[bytes | memoryview]:
    """An archive as it comes, in pieces; one of more than `limit` bytes is refused at the first byte too many."""
    size = 0
    for piece in split(data) if isinstance(data, bytes) else iter(lambda: data.read(PIECE), b""):
        size += len(piece)
        if size > limit:
            raise ArchiveError(f"The archive itself is larger than {limit:,} bytes.")
        yield piece


def inflate(pieces: Iterator[bytes | memoryview], kind: int) -> Iterator[bytes]:
    """What the one stream in these pieces holds; it must be whole, and nothing may follow it."""
    decoder = zlib.decompressobj(kind)
    try:
        for piece in pieces:
            if decoder.eof:
                raise _trailing()
            pending: bytes | memoryview = piece
            while True:
                inflated = decoder.decompress(pending, PIECE)
                if inflated:
                    yield inflated
                pending = decoder.unconsumed_tail
                if decoder.eof or (not pending and len(inflated) < PIECE):
                    break
    except zlib.error as error:
        raise ArchiveError(f"The archive's compressed data is damaged, or of another format: {error}.") from None
    if not decoder.eof:
        raise ArchiveError("The archive ends early: its compressed data is truncated.")
    if decoder.unused_data:
        raise _trailing()


def _trailing() -> ArchiveError:
    return ArchiveError("There is something behind the end of the archive's compressed data.")
