// Keeps options such as --output-dir in one piece: browsers break lines after hyphens.
for (const code of document.querySelectorAll("code"))
  for (const text of [...code.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE)) {
    const parts = text.data.split(/((?<![\w-])--?\w[\w.-]*)/); // every second part is an option
    text.replaceWith(...parts.map((part, number) => {
      if (number % 2 === 0) return part;
      const option = document.createElement("span");
      option.style.whiteSpace = "nowrap";
      option.textContent = part;
      return option;
    }));
  }

// Lets the keyboard scroll tables that are wider than the page; the theme puts them in boxes.
addEventListener("load", () => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap")) if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
});
