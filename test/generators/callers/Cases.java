import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.reflect.TypeToken;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.HealthApi;
import org.openapitools.client.api.VaultApi;
import org.openapitools.client.model.*;

/** Runs cases with the client that openapi-generator makes for Java, and prints each outcome. */
public class Cases {
  private static final Gson GSON = new GsonBuilder().serializeNulls().create();

  private record Task(
      String name, String call, String url, String api_key, Object data) {}

  public static void main(String[] args) throws Exception {
    String json = Files.readString(Path.of("cases.json"));
    List<Map<String, Object>> tasks = GSON.fromJson(json, new TypeToken<>() {});
    PrintStream lines = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    for (Map<String, Object> one : tasks) {
      Map<String, Object> outcome = new HashMap<>();
      try {
        outcome.putAll(run(taskOf(one)));
      } catch (ApiException error) {
        outcome.put("error", failureOf(error));
      }
      outcome.put("name", one.get("name"));
      lines.println(GSON.toJson(outcome));
    }
    // The client's connections would keep the program alive for minutes.
    System.exit(0);
  }

  private static Task taskOf(Map<String, Object> one) {
    return new Task(
        (String) one.get("name"),
        (String) one.get("call"),
        (String) one.get("url"),
        (String) one.get("api_key"),
        one.get("data"));
  }

  private static Map<String, Object> run(Task one) throws ApiException {
    ApiClient client = new ApiClient().setBasePath(one.url());
    client.setBearerToken(one.api_key());
    VaultApi vault = new VaultApi(client);
    switch (one.call()) {
      case "health":
        Healthy health = new HealthApi(new ApiClient().setBasePath(one.url())).health();
        return Map.of(
            "data",
            Map.of(
                "status", health.getStatus().getValue(),
                "postgres", health.getPostgres().getValue(),
                "version", health.getVersion()));
      case "lookup":
        return Map.of("data", vault.lookup(new LookupRequest().data(one.data()), null).getData());
      case "detokenize":
        return detokenize(vault, one.data(), null);
      case "detokenize_lenient":
        return detokenize(vault, one.data(), "handling=lenient");
    }
    TokenizeRequest request = new TokenizeRequest().data(one.data());
    Object tokens = vault.tokenize(request, null).getData();
    Map<String, Object> outcome = new HashMap<>(Map.of("tokens", tokens));
    if (one.call().equals("round_trip")) outcome.putAll(detokenize(vault, tokens, null));
    return outcome;
  }

  private static Map<String, Object> detokenize(VaultApi vault, Object data, String prefer)
      throws ApiException {
    DetokenizeAnswer answer = vault.detokenize(new DetokenizeRequest().data(data), null, prefer);
    List<Map<String, String>> unapplied =
        answer.getUnapplied() == null
            ? List.of()
            : answer.getUnapplied().stream()
                .map(one -> Map.of("path", one.getPath(), "reason", one.getReason().getValue()))
                .toList();
    return Map.of("data", answer.getData(), "unapplied", unapplied);
  }

  private static Map<String, Object> failureOf(ApiException error) {
    if (error.getCode() == 0) return Map.of("class", "network");
    return Map.of(
        "status", error.getCode(),
        "body", error.getResponseBody(),
        "text", String.valueOf(error.getMessage()));
  }
}
