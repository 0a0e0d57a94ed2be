// Which vector instructions a kernel may use here, chosen once when the program runs.
#pragma once

namespace trine {

// AVX2 with FMA; AVX-512 F, BW, DQ, VL; the same with BF16. A kernel without a version for a set uses the one below.
enum class InstructionSet { kPortable, kAvx2, kAvx512, kAvx512Bf16 };

// The widest set that this CPU has. TRINE_INSTRUCTION_SET=portable|avx2|avx512 lowers it (never raises it), for tests.
InstructionSet instruction_set();

}  // namespace trine

// In front of a function: compile it for that set. Its loops are vectorised by the compiler.
#if defined(__x86_64__)
#define TRINE_AVX2 __attribute__((target("avx2,fma,f16c")))
#define TRINE_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))
#define TRINE_AVX512_BF16 __attribute__((target("avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))
#else
#define TRINE_AVX2
#define TRINE_AVX512
#define TRINE_AVX512_BF16
#endif
