# A skeleton of bpftool without the bytes of its object: they come from user/kernel/objects.h and are
# given back as soon as libbpf has taken its copies.
/^#include <bpf\/libbpf.h>/ { print; print "#include \"kernel/objects.h\""; next }
/__elf_bytes\(size_t \*sz\)$/ { print; print "{"; print "\treturn bpf_object_bytes(\"" name "\", sz);"; print "}"; cut = 1; next }
cut { if (/^}/) cut = 0; next }
/bpf_object__open_skeleton\(/ {
	print
	print "\tbpf_object_release(obj->skeleton->data);"
	print "\tobj->skeleton->data = NULL;"
	next
}
{ print }
