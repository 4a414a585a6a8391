# What the runtime apex gives: the linker and the C library. init mounts a tmpfs over /apex once for
# each of its two mount namespaces, and this is run in both.
B=/bin/busybox
$B mkdir -p /apex/com.android.runtime
# init's own tmpfs is noexec.
label=
[ -s /guest/policy ] && label=,context=u:object_r:system_file:s0
$B mount -t tmpfs -o mode=0755$label tmpfs /apex/com.android.runtime
$B cp -r /guest/runtime/* /apex/com.android.runtime/
$B chmod -R 755 /apex/com.android.runtime
[ -s /linkerconfig/ld.config.txt ] || : >/linkerconfig/ld.config.txt
$B chmod 644 /linkerconfig/ld.config.txt
