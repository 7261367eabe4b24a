"""From a photo to where its shadows are; hints and rough masks help."""
