"""What tests of several rooms share: small clips, and frames without a clip."""
