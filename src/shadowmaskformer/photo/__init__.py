"""Read picture files into `Photo` and write them back, with their metadata.

`read_photo` reads a file, `encode_photo` and `file_of` write one. `FORMATS` has one row per file format.
"""

from shadowmaskformer.photo.blocks import DECODER_ERRORS
from shadowmaskformer.photo.exif import EXIF_PREFIX
from shadowmaskformer.photo.formats import FORMATS, Format, endings, find_format, format_of_path, sniff
from shadowmaskformer.photo.picture import Metadata, Photo
from shadowmaskformer.photo.read import (
    MAX_PIXELS,
    ImageSource,
    count_pixels,
    load_file,
    local_path,
    name_of,
    path_of,
    read_photo,
    read_plain,
)
from shadowmaskformer.photo.write import choose_format, encode_photo, encoding_losses, file_of

__all__ = [
    "DECODER_ERRORS",
    "EXIF_PREFIX",
    "FORMATS",
    "MAX_PIXELS",
    "Format",
    "ImageSource",
    "Metadata",
    "Photo",
    "choose_format",
    "count_pixels",
    "encode_photo",
    "encoding_losses",
    "endings",
    "file_of",
    "find_format",
    "format_of_path",
    "load_file",
    "local_path",
    "name_of",
    "path_of",
    "read_photo",
    "read_plain",
    "sniff",
]
