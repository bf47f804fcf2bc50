"use strict";
// Keys press the buttons and links of the page, which work without this script too. A key is one answer: after it, the
// others wait for the next page.
const typed = document.querySelector("#typed");
const classes = [...document.querySelectorAll("#classes button")];
let isLeaving = false;

const press = (element) => {
  if (element && !isLeaving) {
    isLeaving = true;
    element.click();
  }
};
const found = () => {
  const text = typed.value.trim().toLowerCase();
  const shown = classes.filter((each) => each.value.toLowerCase().includes(text));
  const same = shown.find((each) => each.value.toLowerCase() === text);
  return { text, shown, first: text ? same || shown[0] : undefined, same };
};
const show = () => {
  const { text, shown, first, same } = found();
  for (const each of classes) {
    each.hidden = !shown.includes(each);
    each.classList.toggle("first", each === first);
  }
  document.querySelector("#classes").classList.toggle("finding", text !== "");
  document.querySelector("#add").hidden = text === "" || same !== undefined;
  document.querySelector("#enter").value = text === "" ? "" : `Enter: ${first ? first.value : "a new class"}`;
};

if (typed) {
  typed.required = false; // Enter on an empty field does nothing
  typed.addEventListener("input", show);
  typed.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.isComposing) {
      const { text, first } = found();
      event.preventDefault();
      press(text ? first || document.querySelector("#add") : undefined);
    } else if (event.key === "Escape") {
      typed.value = "";
      typed.blur();
      show();
    }
  });
  show();
}

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.target === typed && typed.value !== "") return;
  if (isLeaving || (event.repeat && event.key !== "Tab")) { // a key that is held is one answer
    event.preventDefault();
    return;
  }
  const inField = event.target === typed;
  const key = event.key;
  if (key === "ArrowRight") press(document.querySelector("#skip"));
  else if (key === "ArrowLeft") press(document.querySelector("#back"));
  else if (key === "Backspace") press(document.querySelector("#undo"));
  else if (!inField && /^[1-9]$/.test(key)) press(classes.slice(0, 9)[Number(key) - 1]);
  else if (!inField && typed && key.length === 1 && key !== " " && !/[0-9]/.test(key)) {
    typed.focus(); // the letter is written into it
    return;
  } else return;
  event.preventDefault();
});
document.addEventListener("submit", () => { isLeaving = true; });
window.addEventListener("pageshow", () => { isLeaving = false; });
document.documentElement.dataset.drawn = "true";
