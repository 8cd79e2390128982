import com.google.gson.Gson;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.HealthApi;
import org.openapitools.client.api.VaultApi;
import org.openapitools.client.model.*;

/** A caller of the client that openapi-generator makes for Java. */
public class Caller {
  private static final Gson GSON = new Gson();
  private static final String URL = System.getenv("STANDIN_URL");

  public static void main(String[] args) throws Exception {
    VaultApi vault = vaultOf(System.getenv("STANDIN_API_KEY"));
    String json = Files.readString(Path.of("data.json"));
    Object data = GSON.fromJson(json, Object.class);
    TokenizeAnswer tokens = vault.tokenize(new TokenizeRequest().data(data), null);
    DetokenizeRequest back = new DetokenizeRequest().data(tokens.getData());
    DetokenizeAnswer values = vault.detokenize(back, null, null);

    InvalidType refused = InvalidType.fromJson(refusal(vault, Map.of("age", 7), 400));
    Unauthorized unauthorized =
        Unauthorized.fromJson(refusal(vaultOf("stk_wrong"), data, 401));

    HealthApi health = new HealthApi(new ApiClient().setBasePath(URL));
    Healthy healthy = health.health();
    Map<String, Object> answers =
        Map.of(
            "tokens", tokens.getData(),
            "request_id", tokens.getRequestId().toString(),
            "client_id", tokens.getClientId(),
            "values", values.getData(),
            "status", values.getStatus().getValue(),
            "refused",
                Map.of("error", refused.getError().getValue(), "message", refused.getMessage()),
            "unauthorized", Map.of("error", unauthorized.getError().getValue()),
            "health",
                Map.of(
                    "status", healthy.getStatus().getValue(),
                    "timestamp", healthy.getTimestamp().toString(),
                    "postgres", healthy.getPostgres().getValue(),
                    "version", healthy.getVersion()),
            "live", health.live().getStatus().getValue());
    new PrintStream(System.out, true, StandardCharsets.UTF_8).println(GSON.toJson(answers));
    // The client's connections would keep the program alive for minutes.
    System.exit(0);
  }

  private static VaultApi vaultOf(String apiKey) {
    ApiClient client = new ApiClient().setBasePath(URL);
    client.setBearerToken(apiKey);
    return new VaultApi(client);
  }

  /** The body of a refusal with this status. */
  private static String refusal(VaultApi vault, Object data, int status) {
    try {
      vault.tokenize(new TokenizeRequest().data(data), null);
    } catch (ApiException error) {
      if (error.getCode() == status) return error.getResponseBody();
    }
    throw new AssertionError("no " + status);
  }
}
