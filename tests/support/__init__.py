"""What several test folders share: small clips, frames without a video, and a browser."""
