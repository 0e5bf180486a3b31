"""The host: find skills on disk and on servers, ask, verify every byte, hand them to a model."""
