// The same request for other hands: a shell, a Python program.

const indent = (value) => JSON.stringify(value, null, 2);

const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;

export function curl(body, withKey) {
  const lines = [
    `curl ${location.origin}/v1/chat/completions`,
    `-H 'Content-Type: application/json'`,
    ...(withKey ? [`-H "Authorization: Bearer $UNMASK_API_KEY"`] : []),
    `-d ${quote(indent(body))}`,
  ];
  return lines.join(" \\\n  ");
}

// JSON's words for nothing, yes and no are not Python's; strings and numbers are.
const literal = (value) => {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value === "object") {
    return `{${Object.entries(value).map(([name, inner]) => `${JSON.stringify(name)}: ${literal(inner)}`).join(", ")}}`;
  }
  return JSON.stringify(value);
};

export function python({ unmask, messages, ...body }, withKey) {
  const key = withKey ? `os.environ["UNMASK_API_KEY"]` : `"any"`;
  return [
    ...(withKey ? ["import os", ""] : []),
    "import openai",
    "",
    `client = openai.OpenAI(base_url="${location.origin}/v1", api_key=${key})`,
    "answer = client.chat.completions.create(",
    ...Object.entries(body).map(([name, value]) => `    ${name}=${literal(value)},`),
    "    messages=[",
    ...messages.map((message) => `        ${literal(message)},`),
    "    ],",
    ...(unmask ? [`    extra_body={"unmask": ${literal(unmask)}},`] : []),
    ")",
    "print(answer.choices[0].message.content)",
  ].join("\n");
}
