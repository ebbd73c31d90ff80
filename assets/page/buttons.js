/* Compare and Stop, one of which is shown, and which presses of them count. */
VRThinker.MOST_ASKED = 10_000; // milliseconds for which the server may owe an answer to Compare before it can be pressed again
VRThinker.DOUBLE_CLICK = 300; // milliseconds within which a second tap belongs to the first

/** Each run has a number, and what is said of an earlier one comes too late. */
VRThinker.Buttons = class {
  /** `sayUploading()`: Compare was pressed while videos are on their way. */
  constructor(root, sayUploading) {
    this.place = root.closest("#ask");
    this.sayUploading = sayUploading;
    this.number = 0;
    this.running = false;
    this.asked = -Infinity; // when Compare was pressed, until the server has answered
    this.clicked = { time: -Infinity }; // the button that a pointer pressed last, and when
  }

  /** For the server: which run's Stop is pressed. A late answer has left another value in Gradio's hands. */
  shown() {
    return { number: this.number, running: this.running };
  }

  show({ number, running }) {
    const late = number < this.number || (number === this.number && !this.running);
    if (late) return;
    const focused = document.activeElement;
    this.number = number;
    this.running = running;
    this.place.classList.toggle("vrt-running", running);
    document.dispatchEvent(new CustomEvent("vrt:running"));
    // They take each other's place.
    const left = focused && focused.id === (running ? "go" : "stop");
    if (left) VRThinker.pointerFocus.pass(focused, document.getElementById(running ? "stop" : "go"));
  }

  /** The server has taken what Compare asked for, or refused it. */
  answered() {
    this.asked = -Infinity;
  }

  onClick(event) {
    const button = event.target.closest("#go, #stop");
    if (!button) return;
    const counts = !this.isSecond(button, event) && (button.id === "stop" || this.mayCompare(event.timeStamp));
    if (!counts) event.stopImmediatePropagation();
  }

  /**
   * The second click of a double click, by which the other button may have come under the pointer. Browsers count the clicks of a
   * mouse, whatever lies there, but not always the taps of a finger; keys and scripts make none.
   */
  isSecond(button, { detail, pointerType, timeStamp }) {
    if (!detail) return false;
    const { clicked } = this;
    const soon = pointerType !== "mouse" && button !== clicked.button && timeStamp - clicked.time < VRThinker.DOUBLE_CLICK;
    if (detail > 1 || soon) return true;
    this.clicked = { button, time: timeStamp };
    return false;
  }

  /** Gradio would take each press of Compare for one more run, and put off all of them until the videos have arrived. */
  mayCompare(now) {
    if (VRThinker.uploads.going) {
      this.sayUploading();
      return false;
    }
    if (now - this.asked < VRThinker.MOST_ASKED) return false;
    this.asked = now;
    return true;
  }
};
