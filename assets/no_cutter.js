/* Stands where Gradio's video component looks for FFmpeg to cut clips with: 32 MB that every visitor would load
 * and nobody uses here. */
export default async () => ({ setLogger() {}, setProgress() {} });
