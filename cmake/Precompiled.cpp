// Anchors the precompiled header that the compiler libraries share.
