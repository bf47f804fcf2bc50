"use strict";
// Checkpoints can be hidden in all drawings; without the script all are shown, and the boxes are not.
const boxes = document.querySelectorAll("#models input");
for (const box of boxes) {
  box.hidden = false;
  box.addEventListener("change", () => {
    for (const drawn of document.querySelectorAll(`[data-model="${box.value}"]`)) {
      drawn.style.display = box.checked ? "" : "none";
    }
  });
}
document.documentElement.dataset.drawn = "true";
