// Server-sent events out of a fetch response, which EventSource cannot give: it knows no POST.

export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      held += value;
      const parts = held.split("\n\n");
      held = parts.pop();
      for (const part of parts) {
        if (part.startsWith("data: ")) yield part.slice("data: ".length); // else a comment that keeps the line alive
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
