"""HTTP code that all APIs share: access control, request bodies and speech responses."""
