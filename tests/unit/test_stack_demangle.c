/* SPDX-License-Identifier: BSD-2-Clause */
#include "stack/demangle.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static void expect(const char *name, const char *readable)
{
	char *text = demangle(name);

	cr_expect_str_eq(text, readable, "%s: %s", name, text);
	free(text);
}

/* Names and their readable forms as the reference gives them:
 * doc.rust-lang.org/rustc/symbol-mangling and the symbols that rustc's own demangler is tested
 * with. */
Test(stack_demangle, rust_v0)
{
	expect("_RNvC6_123foo3bar", "123foo::bar");
	expect("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar");
	expect("_RNvCs15kBYyAo9fc_7mycrate7example", "mycrate::example");
	expect("_RNCNCNgCs6DXkGYLi8lr_2cc5spawn00B5_", "cc::spawn::{closure#0}::{closure#0}");
	expect("_RNCINkXs25_NgCsbmNqQUJIY6D_4core5sliceINyB9_4IterhENuNgNoBb_"
	       "4iter8iterator8Iterator"
	       "9rpositionNCNgNpB9_6memchr7memrchrs_0E0Bb_",
	       "<core::slice::Iter<u8> as "
	       "core::iter::iterator::Iterator>::rposition::<core::slice::"
	       "memchr::memrchr::{closure#1}>::{closure#0}");
	expect("_RINbNbCskIICzLVDPPb_5alloc5alloc8box_freeDINbNiB4_5boxed5FnBoxuEp6OutputuEL_"
	       "ECs1iopQbuBiw2_3std",
	       "alloc::alloc::box_free::<dyn alloc::boxed::FnBox<(), Output = ()>>");
	expect("_RMC0INtC8arrayvec8ArrayVechKj7b_E", "<arrayvec::ArrayVec<u8, 123>>");
	expect("_RINtC3foo3barKlnff_Kb1_Kc41_E", "foo::bar::<-255, true, 65>");
	expect("_RINvC1a1bRhQlPxOyTsETstEASmj4_FEuFUKCthEiE",
	       "a::b::<&u8, &mut i32, *const i64, *mut u64, (i16,), (i16, u16), [[u32]; 4], fn(), "
	       "unsafe extern \"C\" fn(u16, u8) -> isize>");
	expect("_RNvC6_123foo3bar.llvm.9D1C9369", "123foo::bar");
}

Test(stack_demangle, hostile_rust)
{
	char deep[6000];
	static const char *const names[] = {
		"_R",   "_RN",         "_RNvC",          "_RNvC99999999999999999999a",
		"_RB_", "_RNvB0_3foo", "_RNvC3foo3bar_", "_RMC0TB_E"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		expect(names[i], names[i]);
	/* depth */
	memset(deep, 'S', sizeof(deep));
	memcpy(deep, "_RINvC1a1b", 10);
	deep[sizeof(deep) - 1] = 0;
	cr_expect_null(demangle_rust_v0(deep));
	/* Each level prints the one before it twice: 2^40 names if nobody counted. */
	strcpy(deep, "_RINvC1a1bTjjE");
	for (unsigned i = 0; i < 40; i++)
		strcat(deep, i ? "TBb_Bb_E" : "TB9_B9_E");
	strcat(deep, "E");
	free(demangle_rust_v0(deep));
	/* every truncation of a good one */
	strcpy(deep, "_RNCINkXs25_NgCsbmNqQUJIY6D_4core5sliceINyB9_4IterhENuNgNoBb_4iter8iterator"
		     "8Iterator9rpositionNCNgNpB9_6memchr7memrchrs_0E0Bb_");
	for (size_t len = strlen(deep); len--;) {
		deep[len] = 0;
		free(demangle_rust_v0(deep));
	}
}

Test(stack_demangle, others)
{
	expect("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt");
	expect("_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$"
	       "3bar17h930b740aa94f1d3aE",
	       "<Test + 'static as foo::Bar<Test>>::bar");
	expect("_ZN7android6Looper8pollOnceEiPiS1_PPv",
	       "android::Looper::pollOnce(int, int*, int*, void**)");
	expect("_ZN1a16h0123456789abcdeEv", "a::h0123456789abcde()");
	expect("main", "main");
	expect("_Znonsense", "_Znonsense");
}
