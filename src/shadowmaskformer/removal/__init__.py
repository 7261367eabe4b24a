"""From a photo and a mask to a photo without the shadow."""
