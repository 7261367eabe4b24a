"""Encoders: from a photo's layers and metadata to the bytes of one format.

An encoder receives the photo with metadata that its format can store, and the photo's layers: (H, W) gray,
(H, W, 2) gray and alpha, (H, W, 3) RGB or (H, W, 4) RGB and alpha, of a depth that the format has.
"""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shadowmaskformer.photo.blocks import IPTC, XMP_KEYWORD, png_chunk, png_with_blocks
from shadowmaskformer.photo.decode import missing_heif
from shadowmaskformer.photo.exif import EXIF_PREFIX, tiff_with_exif
from shadowmaskformer.photo.picture import Photo

# Visually lossless: no 8-bit level of the result differs visibly from the decoded original.
_QUALITY = 95
# A JPEG source of at least this quality keeps its own quantisation. A coarser one would lose detail again.
_GOOD_SOURCE = 90


def encode_jpeg(photo: Photo, layers: NDArray[Any], quality: int | None) -> bytes:
    """Encode as JPEG."""
    about = photo.metadata
    options: dict[str, Any] = {"quality": quality or _QUALITY}
    if quality is None and about.jpeg_tables and (about.jpeg_quality or 0) >= _GOOD_SOURCE:
        options = {"qtables": [list(table) for table in about.jpeg_tables]}
    return _saved(
        photo,
        layers,
        "JPEG",
        **options,
        dpi=about.dpi,
        extra=about.blocks,
        # The source's own chroma, or full: subsampling it again would soften coloured edges.
        subsampling=about.jpeg_subsampling or 0,
        optimize=photo.height * photo.width < 1 << 24,
    )


def encode_png(photo: Photo, layers: NDArray[Any], quality: int | None) -> bytes:
    """Encode as PNG of 8 or 16 bits."""
    from PIL.PngImagePlugin import PngInfo

    about = photo.metadata
    if layers.dtype == np.uint16:
        return _encode_png16(photo, layers)
    texts = PngInfo()
    if about.xmp:
        texts.add_itxt(XMP_KEYWORD, about.xmp.decode("utf-8", "replace"))
    return png_with_blocks(_saved(photo, layers, "PNG", dpi=about.dpi, pnginfo=texts, xmp=None), about.blocks)


def encode_webp(photo: Photo, layers: NDArray[Any], quality: int | None) -> bytes:
    """Encode as WebP, lossless if the source is."""
    lossless = photo.metadata.lossless and quality is None
    # Exact keeps the colours under full transparency.
    return _saved(photo, layers, "WEBP", quality=quality or _QUALITY, lossless=lossless, exact=True)


def encode_bmp(photo: Photo, layers: NDArray[Any], quality: int | None) -> bytes:
    """Encode as BMP."""
    return _saved(photo, layers, "BMP", dpi=photo.metadata.dpi)


def encode_avif(photo: Photo, layers: NDArray[Any], quality: int | None) -> bytes:
    """Encode as AVIF."""
    return _saved(photo, layers, "AVIF", quality=quality or _QUALITY, subsampling="4:4:4")


def encode_heif(photo: Photo, layers: NDArray[Any], quality: int | None) -> bytes:
    """Encode as HEIC."""
    try:
        import pillow_heif
    except ImportError as error:
        raise missing_heif() from error
    image = Image.fromarray(layers)
    image.info.update(_common_options(photo))
    buffer = io.BytesIO()
    pillow_heif.from_pillow(image).save(buffer, quality=quality or _QUALITY, chroma=444)
    return buffer.getvalue()


def encode_tiff(photo: Photo, layers: NDArray[Any], quality: int | None) -> bytes:
    """Encode as TIFF of any depth, deflated."""
    import tifffile

    about = photo.metadata
    texts = ((700, "B", about.xmp), (IPTC, "B", about.blocks))
    tags = [(tag, kind, len(value), value, True) for tag, kind, value in texts if value]
    buffer = io.BytesIO()
    tifffile.imwrite(
        buffer,
        layers,
        photometric="minisblack" if layers.ndim == 2 or layers.shape[2] == 2 else "rgb",
        planarconfig="contig" if layers.ndim == 3 else None,
        extrasamples=["unassalpha"] if photo.alpha is not None else None,
        compression="adobe_deflate",
        # Differences compress far better, but few readers know the predictor for floats.
        predictor=layers.dtype.kind == "u",
        iccprofile=about.icc,
        resolution=about.dpi,
        resolutionunit="INCH" if about.dpi else None,
        software=False,
        metadata=None,
        extratags=tags,
        byteorder="<",
    )
    encoded = buffer.getvalue()
    return tiff_with_exif(encoded, about.exif) if about.exif else encoded


def _saved(photo: Photo, layers: NDArray[Any], format: str, **options: Any) -> bytes:
    """Return what Pillow's `save` writes; options that are None are left out."""
    options = {key: value for key, value in (_common_options(photo) | options).items() if value is not None}
    buffer = io.BytesIO()
    Image.fromarray(layers).save(buffer, format, **options)
    return buffer.getvalue()


def _common_options(photo: Photo) -> dict[str, Any]:
    about = photo.metadata
    exif = EXIF_PREFIX + about.exif if about.exif else None
    options = {"icc_profile": about.icc, "exif": exif, "xmp": about.xmp}
    return {key: value for key, value in options.items() if value}


def _encode_png16(photo: Photo, layers: NDArray[Any]) -> bytes:
    """Encode a 16-bit PNG and insert the chunks that imagecodecs does not write."""
    import imagecodecs

    about = photo.metadata
    chunks = about.blocks
    if about.icc:
        chunks += png_chunk(b"iCCP", b"ICC Profile\0\0" + zlib.compress(about.icc))
    if about.dpi:
        per_metre = (round(value / 0.0254) for value in about.dpi)
        chunks += png_chunk(b"pHYs", struct.pack(">IIB", *per_metre, 1))
    if about.exif:
        chunks += png_chunk(b"eXIf", about.exif)
    if about.xmp:
        chunks += png_chunk(b"iTXt", XMP_KEYWORD.encode() + b"\0\0\0\0\0" + about.xmp)
    return png_with_blocks(bytes(imagecodecs.png_encode(layers, level=6)), chunks)
