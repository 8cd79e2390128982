package example;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Map;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.stereotype.Service;

/** Tokens for values, and values for tokens; names of fields stay. */
@Service
public class Tokens {
  private final Standin standin;
  private final ObjectMapper json;

  Tokens(
      @Value("${standin.url}") String url,
      @Value("${standin.api-key}") String apiKey,
      ObjectMapper json) {
    this.standin = new Standin(url, apiKey);
    this.json = json;
  }

  public Map<String, String> tokenize(Map<String, String> values) {
    return call("tokenize", values);
  }

  public Map<String, String> detokenize(Map<String, String> tokens) {
    return call("detokenize", tokens);
  }

  private Map<String, String> call(String operation, Map<String, String> data) {
    try {
      String answer = standin.call(operation, json.writeValueAsString(Map.of("data", data)));
      return json.convertValue(json.readTree(answer).get("data"), new TypeReference<>() {});
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(interrupted);
    }
  }
}
