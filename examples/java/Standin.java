import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;

/**
 * Replaces values with tokens, and turns the tokens back into values. Needs Java 17 or newer and
 * only the standard library:
 *
 * <pre>STANDIN_API_KEY=stk_... java Standin.java</pre>
 *
 * <p>Requests and answers are text here, because Java has no JSON parser. Use the JSON library of
 * your program.
 */
public final class Standin {
  private static final Duration DEADLINE = Duration.ofSeconds(30);
  private static final Duration REQUEST_TIMEOUT = Duration.ofSeconds(10);

  private final HttpClient http =
      HttpClient.newBuilder().connectTimeout(REQUEST_TIMEOUT).build();
  private final String url;
  private final String apiKey;

  public Standin(String url, String apiKey) {
    this.url = url;
    this.apiKey = apiKey;
  }

  /** An answer with an error status. */
  public static final class Failure extends IOException {
    public final int status;

    Failure(HttpResponse<String> response) {
      super(
          "%d %s (request id %s)"
              .formatted(
                  response.statusCode(),
                  response.body(),
                  response.headers().firstValue("X-Request-Id").orElse("unknown")));
      status = response.statusCode();
    }
  }

  /**
   * Sends a request. Retries limited and shed requests until the deadline.
   *
   * @param operation tokenize or detokenize
   * @param json {@code {"data":{"values":[...]}}}, a list of strings, which are replaced under any
   *     policy. Of any other data, a policy can leave strings in clear.
   * @return the answer, with the same list
   */
  public String call(String operation, String json) throws IOException, InterruptedException {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create(url + "/api/v1/" + operation))
            .timeout(REQUEST_TIMEOUT)
            .header("Authorization", "Bearer " + apiKey)
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(json))
            .build();
    Instant giveUp = Instant.now().plus(DEADLINE);
    while (true) {
      HttpResponse<String> response = http.send(request, HttpResponse.BodyHandlers.ofString());
      if (response.statusCode() == 200) {
        return response.body();
      }
      Optional<Duration> wait = retryAfter(response);
      if (wait.isEmpty() || !Instant.now().plus(wait.get()).isBefore(giveUp)) {
        throw new Failure(response);
      }
      Thread.sleep(wait.get().toMillis());
    }
  }

  /** The time to wait before a retry; empty: no retry. */
  private static Optional<Duration> retryAfter(HttpResponse<?> response) {
    if (response.statusCode() != 429 && response.statusCode() != 503) {
      return Optional.empty();
    }
    long seconds = 1;
    try {
      seconds = response.headers().firstValueAsLong("Retry-After").orElse(1);
    } catch (NumberFormatException notSeconds) {
      // A proxy may send a date.
    }
    // An hour is longer than any deadline. A larger number could overflow an Instant.
    return Optional.of(Duration.ofSeconds(Math.min(3600, Math.max(1, seconds))));
  }

  public static void main(String[] arguments) throws InterruptedException {
    String apiKey = System.getenv("STANDIN_API_KEY");
    if (apiKey == null || apiKey.isEmpty()) {
      System.err.println("standin: set STANDIN_API_KEY to an API key");
      System.exit(1);
    }
    String url = System.getenv().getOrDefault("STANDIN_URL", "http://127.0.0.1:8080");
    Standin standin = new Standin(url, apiKey);
    String values =
        """
        {"data":{"values":["Ann Lee","ann@example.com","bo@example.org"]}}
        """;
    try {
      String tokens = standin.call("tokenize", values);
      System.out.print(tokens);
      // The service ignores fields beside "data", so detokenize accepts an answer of tokenize.
      System.out.print(standin.call("detokenize", tokens));
    } catch (IOException failure) {
      System.err.println("standin: " + failure);
      System.exit(1);
    }
  }
}
