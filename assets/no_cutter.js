/* Stands where Gradio's video component expects FFmpeg for cutting clips: 32 MB that every visitor would load and nobody uses here. */
export default async () => ({ setLogger() {}, setProgress() {} });
