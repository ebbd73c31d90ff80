"""What tests of several rooms share: small clips, frames without a clip, and a browser."""
