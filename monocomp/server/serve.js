(() => {
  // What is typed is compiled as soon as typing stops; the address holds it, to be shared.
  const form = document.querySelector(".mc-ask");
  const at = form.elements;
  const error = form.querySelector(".mc-error");
  const state = form.querySelector(".mc-state");
  const fields = ["program", "backend", "target", "dtype", "sizes", "gradient"];
  const LONGEST = 30000; // signs of an address: servers take twice as many
  const PAUSE = 250; // milliseconds without a key
  const initial = "causal";
  const standard = {};
  const valueOf = (e) => (e.type === "checkbox" ? e.checked : e.value);
  const set = (e, value) => {
    if (e.type === "checkbox") e.checked = value === "true" || value === true;
    else e.value = value;
  };
  for (const name of fields) standard[name] = valueOf(at[name]);

  const remember = () => {
    const query = new URLSearchParams();
    for (const name of fields) {
      const value = valueOf(at[name]);
      if (value !== standard[name]) query.set(name, value);
    }
    const isShort = query.toString().length < LONGEST;
    history.replaceState(null, "", isShort ? `?${query}${location.hash}` : location.pathname);
    return isShort;
  };

  const show = (found) => {
    const root = document.createElement("div");
    root.className = "mc";
    root.setAttribute("role", "group");
    root.setAttribute("aria-label", found.about);
    root.innerHTML = found.html; // escaped by the server; the page runs no scripts but its own
    const old = document.querySelector("main > .mc");
    const panes = (e) => [...e.querySelectorAll(".mc-derived, .mc-made, .mc-sides .mc-listing")];
    const titled = (e) => [...e.querySelectorAll(".mc-section")].map(
      (part) => [part.querySelector(".mc-title").textContent, part]);
    const were = panes(old).map((e) => e.scrollTop);
    const opened = new Map(titled(old).map(([title, part]) => [title, part.open]));
    const { scrollX, scrollY } = window;
    for (const [title, part] of titled(root)) part.open = opened.get(title) ?? part.open;
    old.replaceWith(root);
    root.dispatchEvent(new Event("mc-root", { bubbles: true }));
    panes(root).forEach((e, n) => { e.scrollTop = were[n] ?? e.scrollTop; });
    scrollTo(scrollX, scrollY);
  };

  const complain = (found) => {
    error.hidden = !found.error;
    error.textContent = found.error || "";
    document.body.classList.toggle("mc-stale", Boolean(found.error));
    error.onclick = () => {
      if (found.start === null || found.start === undefined) return;
      // Places count characters; a browser counts units of 16 bits.
      const [before, inside] = [[0, found.start], [found.start, found.stop]].map(
        ([from, to]) => [...at.program.value].slice(from, to).join("").length);
      at.program.focus();
      at.program.setSelectionRange(before, before + inside);
    };
  };

  let asked = null;
  let timer = 0;
  const compile = async () => {
    remember();
    if (asked) asked.abort();
    const own = (asked = new AbortController());
    const begin = performance.now();
    const waiting = setTimeout(() => { state.value = "compiling …"; }, 300);
    try {
      const body = {};
      for (const name of fields) body[name] = valueOf(at[name]);
      const reply = await fetch("/compile", {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(body),
        signal: own.signal,
      });
      const found = await reply.json();
      if (own !== asked || reply.status === 409) return;
      complain(found);
      if (found.html) show(found);
      const took = ((performance.now() - begin) / 1000).toFixed(2);
      state.value = found.error ? "" : `${found.about} · ${took} s`;
    } catch (reason) {
      if (own !== asked) return;
      state.value = "";
      complain({ error: `no answer: is \`monocomp serve\` still running? (${reason.message})` });
    } finally {
      clearTimeout(waiting);
    }
  };
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(compile, PAUSE);
  };

  const start = async (name) => {
    const reply = await fetch(`/library/${name}`);
    at.program.value = await reply.text();
    compile();
  };
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", (event) => {
    if (event.target === at.library) {
      if (at.library.value) start(at.library.value);
      return;
    }
    if (event.target === at.program) at.library.value = "";
    soon();
  });
  at.link.addEventListener("click", () => {
    if (!remember()) state.value = "this program is too long for a link";
    else if (navigator.clipboard) navigator.clipboard.writeText(location.href).then(
      () => { state.value = "the link is copied"; },
      () => { state.value = "the link is this page's address"; });
  });

  const query = new URLSearchParams(location.search);
  for (const name of fields) if (query.has(name)) set(at[name], query.get(name));
  if (at.program.value) compile();
  else {
    at.library.value = initial;
    start(initial);
  }
})();
