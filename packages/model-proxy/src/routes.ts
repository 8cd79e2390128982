/**
 * What the proxy does with a part of a request. A list is treated as each of its elements.
 * - `text`: a string that a person could have written, or JSON. Numbers are refused: they may be
 *   text in the form of token ids.
 * - `json`: all strings and numbers in it, at any depth, and names that are no identifiers
 * - `verbatim`: ids, types, names of tools, numbers, switches
 * - `file`: an image or file, refused unless a setting lets it pass
 * - a sentence: refused, with this remedy
 * - an object: its fields. A string in its place is `text`. A field that is not named is refused.
 */
export type Rule = string | Fields;
export interface Fields {
  readonly [field: string]: Rule;
}

const all = (rule: Rule, ...names: string[]): Fields =>
  Object.fromEntries(names.flatMap((name) => name.split(' ')).map((name) => [name, rule]));

const STORED =
  'the provider would read what this request does not have; send the whole conversation instead';
const BY_ID = 'the provider would read a file that this proxy has not seen; send its text instead';

/** Parts of messages, of all APIs. */
const PART: Fields = {
  ...all(
    'verbatim',
    'type id tool_use_id name signature data cache_control detail is_error caller',
  ),
  ...all('text', 'text refusal thinking title context filename'),
  ...all('json', 'input citations annotations logprobs'),
  ...all('file', 'image_url input_audio file file_id file_data file_url'),
  get content() {
    return PART;
  },
  /** A file, or a text: `walk` decides. */
  get source() {
    return SOURCE;
  },
};

export const SOURCE: Fields = {
  ...all('verbatim', 'type media_type'),
  data: 'text',
  content: PART,
};

const NAMED_CALL: Fields = { name: 'verbatim', arguments: 'text' };

const CALL: Fields = {
  ...all('verbatim', 'id type index'),
  function: NAMED_CALL,
  custom: { name: 'verbatim', input: 'text' },
};

const MESSAGE: Fields = {
  ...all('verbatim', 'role tool_call_id'),
  ...all('text', 'name refusal reasoning_content reasoning'),
  content: PART,
  tool_calls: CALL,
  function_call: NAMED_CALL,
  annotations: 'json',
  audio: 'file',
};

/** Of the responses API: messages, calls of functions and their results, reasoning. */
const ITEM: Fields = {
  ...all('verbatim', 'type id role status phase call_id name encrypted_content'),
  content: PART,
  summary: PART,
  output: PART,
  ...all('text', 'arguments input'),
};

const SCHEMA: Fields = {
  ...all('verbatim', 'type name strict'),
  description: 'text',
  schema: 'json',
};

const FUNCTION: Fields = {
  ...all('verbatim', 'name strict'),
  description: 'text',
  ...all('json', 'parameters format'),
};

const TOOL: Fields = {
  ...FUNCTION,
  ...all('verbatim', 'type cache_control eager_input_streaming defer_loading allowed_callers'),
  ...all('verbatim', 'max_uses search_context_size'),
  ...all('json', 'input_schema input_examples user_location allowed_domains blocked_domains'),
  function: FUNCTION,
  custom: FUNCTION,
  vector_store_ids: BY_ID,
  ...all('the provider would send texts to that server; leave it out', 'server_url server_label'),
};

const SHARED: Fields = {
  ...all('verbatim', 'model stream stream_options temperature top_p top_k service_tier store'),
  ...all('verbatim', 'parallel_tool_calls tool_choice top_logprobs reasoning_effort verbosity'),
  ...all('verbatim', 'prompt_cache_options prompt_cache_retention moderation context_management'),
  ...all('text', 'user safety_identifier prompt_cache_key'),
  tools: TOOL,
  metadata: 'json',
};

/** Each path with the fields of its body; null: GET, without a body. */
export const ROUTES: Readonly<Record<string, Fields | null>> = {
  '/v1/chat/completions': {
    ...SHARED,
    ...all('verbatim', 'frequency_penalty presence_penalty logit_bias logprobs n seed modalities'),
    ...all('verbatim', 'max_tokens max_completion_tokens function_call min_p repetition_penalty'),
    messages: MESSAGE,
    functions: FUNCTION,
    stop: 'text',
    prediction: { type: 'verbatim', content: PART },
    response_format: { type: 'verbatim', json_schema: SCHEMA },
    web_search_options: { search_context_size: 'verbatim', user_location: 'json' },
    audio: 'file',
  },
  '/v1/responses': {
    ...SHARED,
    ...all('verbatim', 'include max_output_tokens max_tool_calls reasoning truncation'),
    input: ITEM,
    instructions: ITEM,
    text: { verbosity: 'verbatim', format: SCHEMA },
    ...all(STORED, 'previous_response_id conversation prompt'),
    background: 'the proxy has no path to ask for the answer later; use stream instead',
  },
  '/v1/messages': {
    ...SHARED,
    ...all('verbatim', 'max_tokens thinking inference_geo speed cache_control'),
    messages: MESSAGE,
    system: PART,
    stop_sequences: 'text',
    output_config: { ...all('verbatim', 'effort task_budget'), format: SCHEMA },
    output_format: SCHEMA,
    container: STORED,
    mcp_servers: 'the provider would send texts to that server; leave it out',
  },
  '/v1/embeddings': {
    ...all('verbatim', 'model encoding_format dimensions input_type truncate'),
    ...all('text', 'input user'),
  },
  '/v1/models': null,
};
