// A conversation over /v1/chat/completions, piece by piece.
"use strict";

// The data of server-sent events, one after the other.
async function* events(body) {
  const decoder = new TextDecoder();
  let held = "";
  const reader = body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    held += decoder.decode(value || new Uint8Array(), { stream: !done });
    const parts = held.split("\n\n");
    held = parts.pop();
    for (const part of parts) if (part.startsWith("data: ")) yield part.slice(6);
    if (done) return;
  }
}

class Conversation {
  constructor(page, request) {
    this.page = page;
    this.request = request;
    this.messages = [];
    this.stopper = null;
  }

  get busy() { return this.stopper !== null; }

  clear() {
    this.stop();
    this.messages = [];
    this.page.said.replaceChildren();
    this.page.speed.textContent = "";
  }

  stop() { if (this.stopper) this.stopper.abort(); }

  add(who, text) {
    const name = document.createElement("p");
    name.className = "who";
    name.textContent = who;
    const words = document.createElement("p");
    words.textContent = text;
    this.page.said.append(name, words);
    this.page.said.scrollTop = this.page.said.scrollHeight;
    return words;
  }

  async ask(text) {
    const { page, messages } = this;
    messages.push({ role: "user", content: text });
    this.add("You", text);
    const model = page.model.value;
    const words = this.add(model, "");
    const told = page.system.value.trim() ? [{ role: "system", content: page.system.value.trim() }] : [];
    this.stopper = new AbortController();
    page.busy(true);
    let answer = "", tokens = 0, first = 0, reason = null, failure = null;
    const start = performance.now();
    const speed = (end) => {
      const taken = (performance.now() - first) / 1000;
      const rate = tokens > 1 && taken > 0 ? ((tokens - 1) / taken).toFixed(1) : "–";
      page.speed.textContent = `${tokens} tokens, ${rate} tokens/s, first after ${((first - start) / 1000).toFixed(2)} s${end}`;
    };
    try {
      const response = await this.request("v1/chat/completions", {
        method: "POST", signal: this.stopper.signal, headers: { "Content-Type": "application/json" },
        body: JSON.stringify({
          model, messages: [...told, ...messages], stream: true, stream_options: { include_usage: true },
          temperature: Number(page.temperature.value), max_tokens: Number(page.most.value) || undefined,
        }),
      });
      for await (const data of events(response.body)) {
        if (data === "[DONE]") break;
        const piece = JSON.parse(data);
        if (piece.error) throw new Error(piece.error.message);
        if (piece.usage) tokens = piece.usage.completion_tokens;
        for (const choice of piece.choices) {
          const text = choice.delta.content || "";
          reason = choice.finish_reason || reason;
          if (!text) continue;
          first = first || performance.now();
          tokens += 1;
          answer += text;
          const down = page.said.scrollTop + page.said.clientHeight >= page.said.scrollHeight - 40;
          words.textContent = answer;
          if (down) page.said.scrollTop = page.said.scrollHeight;
          speed("");
        }
      }
    } catch (error) {
      failure = error;
    }
    if (this.stopper.signal.aborted) [reason, failure] = ["stopped", null];
    this.stopper = null;
    const ends = { length: "; it ended at the most tokens, or the context is full", stopped: "; stopped" };
    if (first) speed(ends[reason] || "");
    else if (reason === "stopped") page.speed.textContent = "stopped";
    if (failure) {
      words.className = "problem";
      words.textContent = `${answer}${answer ? "\n" : ""}${failure.message}`;
    }
    if (answer) messages.push({ role: "assistant", content: answer }); else messages.pop();
    page.busy(false);
  }
}
