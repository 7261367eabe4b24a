"""Find the shadows in a photo, with the help of hints and rough masks."""
