(() => {
  // The page is complete without this: it adds a walk along the steps, and lights what belongs
  // together. No names of its own outside, no requests, nothing stored. On a page of its own it
  // hears keys wherever they are pressed, and steps have addresses.
  const self = document.currentScript;
  const isPage = document.body.classList.contains("mc-page");
  const first = (self && self.closest(".mc")) || document.querySelector(".mc:not(.mc-ready)");
  if (first && !first.classList.contains("mc-ready")) attach(first);
  // A page whose explorer changes says where the new one is.
  if (isPage) addEventListener("mc-root", (event) => attach(event.target));

  function attach(root) {
    root.classList.add("mc-ready");
    const all = (selector) => [...root.querySelectorAll(selector)];

    // What a term and the lines that compute it share
    const linked = all("[data-o]");
    const light = (number, from) => {
      for (const e of linked) e.classList.toggle("mc-lit", e.dataset.o === number);
      for (const box of all(".mc-listing")) {
        const first = box.querySelector(".mc-lit");
        if (!first || box.contains(from)) continue;
        const y = first.getBoundingClientRect().top - box.getBoundingClientRect().top;
        box.scrollTop += y - box.clientHeight / 3;
      }
    };
    for (const e of linked) {
      if (e.localName === "mrow") e.setAttribute("tabindex", "0");
      e.addEventListener("click", (event) => {
        event.stopPropagation();
        light(e.classList.contains("mc-lit") ? null : e.dataset.o, e);
      });
    }

    // Formulas were measured without the reader's fonts: those that run out of their line are
    // measured again.
    const fit = () => {
      const wide = [];
      for (const formula of all("math")) {
        const box = formula.closest(".mc-eq, .mc-said");
        const size = parseFloat(getComputedStyle(formula).fontSize);
        if (box && box.scrollWidth > box.clientWidth) wide.push([formula, box.scrollWidth / size]);
      }
      for (const [formula, ems] of wide) formula.style.setProperty("--ems", ems);
    };
    root.addEventListener("toggle", fit, true);
    fit();

    // Long lists of arguments stand before what is computed.
    for (const box of all(".mc-listing:has(.mc-no)")) {
      const first = box.querySelector("[data-o]");
      if (first) box.scrollTop = first.offsetTop - box.offsetTop - box.clientHeight / 8;
    }

    // The walk
    const steps = all(".mc-step");
    if (!steps.length) return listen(() => false);
    const isKey = (step) => step.classList.contains("mc-key");
    const bar = document.createElement("div");
    bar.className = "mc-bar-top";
    const button = (text, said) => {
      const b = document.createElement("button");
      b.type = "button";
      b.textContent = text;
      b.setAttribute("aria-label", said);
      bar.append(b);
      return b;
    };
    const back = button("←", "previous step");
    const slider = document.createElement("input");
    Object.assign(slider, { type: "range", min: 1, max: steps.length, value: 1 });
    slider.setAttribute("aria-label", "step");
    bar.append(slider);
    const on = button("→", "next step");
    const where = document.createElement("output");
    where.setAttribute("aria-live", "polite");
    bar.append(where);
    const link = document.createElement("a");
    link.className = "mc-link";
    link.title = "copy a link to this step";
    if (isPage) bar.append(link);
    link.onclick = (event) => {
      event.preventDefault();
      history.replaceState(null, "", link.hash);
      const copied = navigator.clipboard && navigator.clipboard.writeText(location.href);
      if (copied) copied.then(() => { link.textContent = "copied"; }, () => {});
    };
    const whole = button("all steps", "show all steps or one");
    const keys = document.createElement("p");
    keys.className = "mc-keys";
    keys.innerHTML =
      "<kbd>←</kbd> <kbd>→</kbd> step · <kbd>d</kbd> next decisive · <kbd>Home</kbd> <kbd>End</kbd> · " +
      "<kbd>a</kbd> all or one · <kbd>Enter</kbd> on a term lights its lines · <kbd>Esc</kbd> none";
    root.querySelector(".mc-steps").before(bar, keys);
    if (!isPage) root.tabIndex = 0;

    const were = all(".mc-steps details").map((e) => [e, e.open]);
    let at = 1;
    const go = (n) => {
      at = Math.min(Math.max(n, 1), steps.length);
      for (const e of all(".mc-here, .mc-on")) e.classList.remove("mc-here", "mc-on");
      const step = steps[at - 1];
      const phase = step.closest(".mc-phase");
      step.classList.add("mc-here");
      phase.classList.add("mc-here");
      if (root.classList.contains("mc-walk")) step.open = phase.open = true;
      const dot = root.querySelector(`.mc-dot[data-n="${at}"]`);
      if (dot) dot.classList.add("mc-on");
      slider.value = at;
      root.dataset.at = at;
      where.value = `step ${at} of ${steps.length}`;
      link.href = link.textContent = `#step-${at}`;
      fit();
    };
    const moveTo = (n) => {
      go(n);
      if (isPage) history.replaceState(null, "", link.hash);
    };
    const walk = (one) => {
      root.classList.toggle("mc-walk", one);
      whole.textContent = one ? "all steps" : "one step";
      if (!one) for (const [e, open] of were) e.open = open;
      go(at);
    };
    const decisive = () => {
      const next = steps.findIndex((e, n) => n >= at && isKey(e));
      moveTo(next < 0 ? steps.findIndex(isKey) + 1 || at : next + 1);
    };
    const addressed = () => isPage && Number((/^#step-(\d+)$/.exec(location.hash) || [])[1]);
    back.onclick = () => moveTo(at - 1);
    on.onclick = () => moveTo(at + 1);
    whole.onclick = () => walk(!root.classList.contains("mc-walk"));
    slider.oninput = () => moveTo(+slider.value);
    for (const dot of all(".mc-dot")) dot.onclick = () => moveTo(+dot.dataset.n);
    at = addressed() || steps.findIndex(isKey) + 1 || 1;
    walk(true);
    if (isPage) addEventListener("hashchange", () => root.isConnected && go(addressed() || at));

    const moves = {
      ArrowLeft: () => moveTo(at - 1),
      ArrowRight: () => moveTo(at + 1),
      Home: () => moveTo(1),
      End: () => moveTo(steps.length),
      d: decisive,
      a: () => walk(!root.classList.contains("mc-walk")),
    };
    listen((key) => {
      const move = Object.hasOwn(moves, key) && moves[key];
      if (move) move();
      return Boolean(move);
    });

    // A key that is pressed outside is ours where nothing else on the page could mean it.
    function isOurs(target) {
      if (root.contains(target)) return true;
      return !target.isContentEditable && !target.matches("input, textarea, select");
    }

    function listen(moved) {
      const hears = isPage ? document : root;
      hears.addEventListener("keydown", function onKey(event) {
        if (!root.isConnected) return hears.removeEventListener("keydown", onKey);
        if (event.ctrlKey || event.metaKey || event.altKey || !isOurs(event.target)) return;
        let used = true;
        if (event.key === "Escape") light(null, null);
        else if (event.key === "Enter" && event.target.dataset.o) event.target.dispatchEvent(
          new MouseEvent("click", { bubbles: true }));
        else used = moved(event.key);
        if (!used) return;
        event.preventDefault();
        event.stopPropagation();
      });
    }
  }
})();
