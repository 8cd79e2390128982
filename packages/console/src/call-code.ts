import { leavesOf } from './playground-input.ts';
import { LENIENT, type Operation } from './protocol.ts';

/** A call as a program or a person would send it. */
export interface Call {
  /** Address of the public listener. */
  readonly url: string;
  readonly operation: Operation;
  /** JSON, the `data` of the request. */
  readonly text: string;
  readonly isLenient: boolean;
}

export type Language = 'curl' | 'TypeScript' | 'Python';

/** With strings, objects and lists alone, JSON is valid in all three languages. */
const CODE: Record<Language, (call: Call) => string> = {
  curl: ({ url, operation, text, isLenient }) =>
    [
      `curl ${url}/api/v1/${operation} \\`,
      '  -H "Authorization: Bearer $STANDIN_API_KEY" \\',
      "  -H 'Content-Type: application/json' \\",
      ...(isLenient ? [`  -H 'Prefer: ${LENIENT}' \\`] : []),
      `  -d '${`{"data":${text}}`.replaceAll("'", "'\\''")}'`,
    ].join('\n'),
  TypeScript: ({ url, operation, text, isLenient }) => {
    if (isLenient) return lenientTypeScript(url, text);
    return [
      'import { env } from "node:process";',
      'import { Standin } from "standin-client";',
      '',
      'const standin = new Standin({',
      `  url: "${url}",`,
      '  apiKey: env.STANDIN_API_KEY ?? "",',
      '});',
      `const data = await standin.${operation}(${text});`,
    ].join('\n');
  },
  Python: ({ url, operation, text, isLenient }) =>
    [
      'import json, os, urllib.request',
      '',
      // No JSON has three quotes in a row, and each one ends with a bracket.
      `data = ${hasOnlyStrings(text) ? text : `json.loads(r"""${text}""")`}`,
      'request = urllib.request.Request(',
      `    "${url}/api/v1/${operation}",`,
      '    json.dumps({"data": data}).encode(),',
      '    {',
      '        "Authorization": f"Bearer {os.environ[\'STANDIN_API_KEY\']}",',
      '        "Content-Type": "application/json",',
      ...(isLenient ? [`        "Prefer": "${LENIENT}",`] : []),
      '    },',
      ')',
      'with urllib.request.urlopen(request) as response:',
      '    print(json.load(response)["data"])',
    ].join('\n'),
};

export const LANGUAGES = Object.keys(CODE) as Language[];

/** The client has no lenient calls. */
function lenientTypeScript(url: string, text: string): string {
  return [
    'import { env } from "node:process";',
    '',
    `const response = await fetch("${url}/api/v1/detokenize", {`,
    '  method: "POST",',
    '  headers: {',
    '    Authorization: "Bearer " + env.STANDIN_API_KEY,',
    '    "Content-Type": "application/json",',
    `    Prefer: "${LENIENT}",`,
    '  },',
    `  body: JSON.stringify({ data: ${text} }),`,
    '});',
    'const { data, unapplied } = await response.json();',
  ].join('\n');
}

function hasOnlyStrings(json: string): boolean {
  return leavesOf(JSON.parse(json)).every(({ value }) => typeof value === 'string');
}

/** The code of a call. It reads the API key from STANDIN_API_KEY, and never contains one. */
export function codeOf(language: Language, call: Call): string {
  return CODE[language](call);
}
