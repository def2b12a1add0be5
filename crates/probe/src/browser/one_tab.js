// There is one tab. Chromium stops taking clicks in a tab that has opened another, so a page opens
// none, and a link that asks for a new tab is followed in this one.
(() => {
  Object.defineProperty(window, "open", { value: () => null });
  const here = ["", "_self", "_parent", "_top"];
  const stay = (element, attribute) => {
    const target = element.getAttribute(attribute);
    if (target !== null && !here.includes(target.toLowerCase()) && !window.frames[target]) {
      element.setAttribute(attribute, "_self");
    }
  };
  const visit = (element) => {
    if (!(element instanceof Element)) return;
    if (element.matches("a, area, form")) stay(element, "target");
    if (element.matches("button, input")) stay(element, "formtarget");
    const form = element.form;
    if (form instanceof HTMLFormElement) stay(form, "target");
  };
  const all = (event) => {
    for (const base of document.querySelectorAll("base[target]")) stay(base, "target");
    for (const element of event.composedPath()) visit(element);
  };
  window.addEventListener("click", all, true);
  window.addEventListener("submit", all, true);
})();
