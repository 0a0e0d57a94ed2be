// The object that owns the precompiled header; see TrineTargets.cmake.
