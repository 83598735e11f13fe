"""Model providers behind one interface; the heavy SDKs are imported when the first request needs them."""
