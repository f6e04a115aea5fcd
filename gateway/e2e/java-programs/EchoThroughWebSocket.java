import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.WebSocket;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;

/** Opens a WebSocket with the JDK's client, answers the first text, and prints the second. */
class EchoThroughWebSocket {
  public static void main(String[] arguments) throws Exception {
    var received = new CompletableFuture<String>();
    var listener =
        new WebSocket.Listener() {
          @Override
          public CompletionStage<?> onText(WebSocket socket, CharSequence text, boolean last) {
            if (text.toString().equals("welcome")) socket.sendText("from the JDK", true);
            else received.complete(text.toString());
            socket.request(1);
            return null;
          }
        };
    var socket =
        HttpClient.newHttpClient()
            .newWebSocketBuilder()
            .buildAsync(URI.create(arguments[0]), listener)
            .get(20, TimeUnit.SECONDS);
    System.out.println(received.get(20, TimeUnit.SECONDS));
    socket.abort();
    System.exit(0);
  }
}
