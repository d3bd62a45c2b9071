"""HTTP code shared by all APIs: access control, request bodies, and speech responses."""
