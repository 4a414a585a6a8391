// SPDX-License-Identifier: BSD-2-Clause
// As tests/apps/loop_kinds.c, in Java: an NIO selector in the thread "nio-loop".
// usage: java LoopJava.java java GO_FILE
import java.nio.channels.Selector;
import java.nio.file.Files;
import java.nio.file.Path;

public class LoopJava {
    static void loop(Path goFile) throws Exception {
        Selector selector = Selector.open();
        int blocks = 0;
        long wait = 100, slept = 0, began = 0;
        for (;;) {
            // What the last block lasted at the most: a busy machine holds up what is around the sleep.
            long ends = System.nanoTime();
            selector.select(wait);
            long woke = System.nanoTime();
            if (slept != 0) System.out.println("block 0 " + slept + " " + (ends - began));
            System.out.flush();
            slept = 0;
            began = woke;
            if (!Files.exists(goFile)) continue;
            if (++blocks > 5) {
                wait = 0;
                continue;
            }
            long since = System.nanoTime();
            Thread.sleep(300);
            slept = System.nanoTime() - since;
            wait = 500;
        }
    }

    public static void main(String[] arguments) throws Exception {
        Path goFile = Path.of(arguments[1]);
        Thread thread = new Thread(() -> {
            try {
                loop(goFile);
            } catch (Exception e) {
                System.exit(1);
            }
        }, "nio-loop");
        thread.start();
        System.out.println("ready");
        thread.join();
    }
}
