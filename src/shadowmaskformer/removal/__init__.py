"""Remove the shadow from a photo, given a mask."""
