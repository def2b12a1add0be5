// Runs in a world of its own: what a page has done to its own objects is not seen here.
const skep = (() => {
  const TEXT_MAX = 200000;
  const HTML_MAX = 8000000;
  const fail = (code, detail) => ({ error: { code, detail } });
  const all = (selector) => {
    try {
      return [...document.querySelectorAll(selector)];
    } catch (error) {
      throw { code: "bad_selector", detail: "no CSS selector: " + selector };
    }
  };
  const one = (selector) => {
    const found = all(selector);
    if (found.length === 0) throw { code: "not_found", detail: "the selector matches nothing" };
    return found[0];
  };
  const seen = (element) => element.innerText ?? element.textContent ?? "";
  // Whether what has the focus is within something that cannot be looked into: a plugin, or a
  // closed shadow root, whose host has the focus in its place.
  const inside = (at) => {
    if (at.tagName === "OBJECT" || at.tagName === "EMBED") return true;
    if (at.localName.includes("-")) return true;
    const own = "html, body, input, select, textarea, button, a, area, summary, audio, video, " +
      "dialog, [contenteditable], [tabindex]";
    return !at.matches(own);
  };
  const focused = () => {
    let at = document.activeElement;
    for (let depth = 0; at && depth < 32; depth += 1) {
      if (at.shadowRoot && at.shadowRoot.activeElement) at = at.shadowRoot.activeElement;
      else if (at.tagName === "IFRAME" || at.tagName === "FRAME") {
        // A frame of another site cannot be looked into.
        if (!at.contentDocument) return "hidden";
        if (!at.contentDocument.activeElement) return null;
        at = at.contentDocument.activeElement;
      } else return inside(at) ? "hidden" : at;
    }
    return at;
  };
  const words = (text) =>
    " " + (text ?? "").slice(0, 300).replace(/([a-z])([A-Z])/g, "$1 $2")
      .replace(/[^\p{L}\p{N}]+/gu, " ").toLowerCase() + " ";
  const PAYMENT = new RegExp(
    " ((credit|debit|payment|bank)? ?card ?(no|nr|num|number|holder|code|name|expiry|exp)?" +
    "|cc ?(no|nr|num|number|name|exp|csc|cvc|cvv|month|year|type)|pan|cvc2?|cvv2?|csc|cvn" +
    "|security code|card ?number|iban|bic|swift|sort code|routing( number)?" +
    "|(bank )?account ?(no|nr|number)|kartennummer|prüfziffer|kontonummer|kreditkarte" +
    "|expiry( date)?|expiration( date)?|exp (date|month|year)) ", "u");
  const judge = (element) => {
    if (element === "hidden") return "payment";
    if (!element || !element.tagName) return "plain";
    const auto = (element.getAttribute("autocomplete") ?? "").toLowerCase().split(/\s+/);
    if (auto.some((word) => word.startsWith("cc-"))) return "payment";
    const labels = [...(element.labels ?? [])].map((label) => label.textContent);
    const by = (element.getAttribute("aria-labelledby") ?? "").split(/\s+/)
      .map((id) => id && document.getElementById(id)?.textContent);
    const names = [element.name, element.id, element.placeholder, element.title,
      element.getAttribute("aria-label"), ...labels, ...by];
    const field = element.matches("input, select, textarea, [contenteditable]");
    if (field && names.some((name) => typeof name === "string" && PAYMENT.test(words(name)))) {
      return "payment";
    }
    if (element.type === "password") return "password";
    if (auto.some((word) => word.endsWith("-password"))) return "password";
    const cover = getComputedStyle(element).webkitTextSecurity;
    return field && cover && cover !== "none" ? "password" : "plain";
  };
  const spot = (element) => {
    element.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
    const box = [...element.getClientRects()].find((rect) => rect.width > 0 && rect.height > 0);
    if (!box) throw { code: "not_visible", detail: "the element is not visible" };
    return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
  };
  const say = (element) => {
    element.dispatchEvent(new Event("input", { bubbles: true, composed: true }));
    element.dispatchEvent(new Event("change", { bubbles: true }));
  };
  const actions = {
    text(selector) {
      const found = selector === null ? [document.body ?? document.documentElement] : all(selector);
      if (found.length === 0) throw { code: "not_found", detail: "the selector matches nothing" };
      let text = "";
      for (const element of found) {
        if (text.length > TEXT_MAX) break;
        text += (text ? "\n" : "") + (element ? seen(element).slice(0, TEXT_MAX) : "");
      }
      return { text: text.slice(0, TEXT_MAX), found: found.length, cut: text.length > TEXT_MAX };
    },
    html() {
      const html = document.documentElement ? document.documentElement.outerHTML : "";
      if (html.length > HTML_MAX) throw { code: "too_large", detail: "the page is too large" };
      return { html, type: document.contentType };
    },
    title() {
      return { title: document.title.slice(0, 1000), type: document.contentType };
    },
    matches(selector) {
      return { found: all(selector).length };
    },
    point(selector) {
      const element = one(selector);
      const at = spot(element);
      const hit = document.elementFromPoint(at.x, at.y);
      const label = hit && hit.closest("label");
      const good = !hit || hit === element || element.contains(hit) || hit.contains(element) ||
        (label && label.control === element) || hit.shadowRoot;
      return { ...at, covered: !good };
    },
    focus(selector) {
      const element = one(selector);
      spot(element);
      if (element.disabled || element.readOnly) {
        throw { code: "bad_field", detail: "the field cannot be written to" };
      }
      if (!element.matches(":focus")) {
        element.focus();
        try {
          element.setSelectionRange(element.value.length, element.value.length);
        } catch {
          // Not every kind of field has a cursor that can be set.
        }
      }
      if (!element.matches(":focus") && !element.contains(document.activeElement)) {
        throw { code: "bad_field", detail: "the element takes no text" };
      }
      return { kind: judge(element) === "plain" ? judge(focused()) : judge(element) };
    },
    focused() {
      return { kind: judge(focused()) };
    },
    fill(selector, text, allowed) {
      const element = one(selector);
      const kind = judge(element);
      if (!allowed.includes(kind)) return { kind, refused: true };
      if (element.disabled || element.readOnly) {
        throw { code: "bad_field", detail: "the field cannot be written to" };
      }
      const other = ["checkbox", "radio", "file", "button", "submit", "reset", "image", "hidden"];
      if (element.tagName === "TEXTAREA" ||
          (element.tagName === "INPUT" && !other.includes(element.type))) {
        element.focus();
      } else if (element.isContentEditable) {
        element.focus();
      } else {
        throw { code: "bad_field", detail: "the element has no text to fill in" };
      }
      // Some fields turn into password fields when they get the focus.
      const now = judge(element);
      if (!allowed.includes(now)) return { kind: now, refused: true };
      if (element.isContentEditable) element.textContent = text;
      else element.value = text;
      say(element);
      return { kind: kind === "plain" ? now : kind };
    },
    choose(selector, text, allowed) {
      const element = one(selector);
      const kind = judge(element);
      if (!allowed.includes(kind)) return { kind, refused: true };
      if (element.tagName !== "SELECT") {
        throw { code: "bad_field", detail: "the element is no list to choose from" };
      }
      const options = [...element.options].filter((option) => !option.disabled);
      const option = options.find((option) => option.value === text) ??
        options.find((option) => option.label.trim() === text.trim());
      if (!option || element.disabled) {
        throw { code: "not_found", detail: "the list has no such option" };
      }
      option.selected = true;
      say(element);
      return { kind, value: option.value.slice(0, 1000), label: option.label.slice(0, 1000) };
    },
    scroll(selector, pixels) {
      if (selector !== null) spot(one(selector));
      else if (pixels !== null) window.scrollBy({ top: pixels, behavior: "instant" });
      else window.scrollTo({ top: document.documentElement.scrollHeight, behavior: "instant" });
      return { x: Math.round(window.scrollX), y: Math.round(window.scrollY) };
    },
    main() {
      const named = all("main, article, [role=main]").filter((element) => seen(element).trim());
      const longest = (elements) => elements.reduce(
        (best, element) => (seen(element).length > seen(best).length ? element : best));
      if (named.length > 0) return { text: seen(longest(named)).slice(0, TEXT_MAX) };
      const UNWANTED = "nav, header, footer, aside, form, script, style, [role=navigation]";
      const score = (element) => {
        let links = 0;
        for (const link of element.querySelectorAll("a")) links += seen(link).length;
        let own = 0;
        for (const child of element.children) {
          if (/^(P|PRE|BLOCKQUOTE|UL|OL|TABLE|H[1-6])$/.test(child.tagName)) {
            own += seen(child).length;
          }
        }
        return own - 2 * links;
      };
      let best = document.body;
      let most = 0;
      for (const element of all("body, body div, body section, body td").slice(0, 2000)) {
        if (element.closest(UNWANTED)) continue;
        const points = score(element);
        if (points > most) [best, most] = [element, points];
      }
      return { text: (best ? seen(best) : "").slice(0, TEXT_MAX) };
    },
    links() {
      const found = new Set();
      for (const link of all("a[href], area[href]").slice(0, 5000)) {
        if (typeof link.href === "string" && link.href.length <= 2000 &&
            !(link.rel ?? "").split(/\s+/).includes("nofollow")) found.add(link.href);
      }
      return { links: [...found].slice(0, 2000), title: document.title.slice(0, 300) };
    },
  };
  return (name, args) => {
    try {
      return actions[name](...args);
    } catch (error) {
      if (error && error.code) return fail(error.code, error.detail);
      return fail("script_error", String(error));
    }
  };
})();
