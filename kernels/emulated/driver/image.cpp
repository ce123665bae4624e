// See image.h. The format of cubins is not published; what is read here was found by comparing ones that ptxas made.
#include "image.h"

#include <elf.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace host {

namespace {

// Attributes in a cubin's .nv.info sections: {format, attribute, size} and, for format 4, `size` bytes.
enum InfoAttribute : uint8_t { kMaxThreads = 0x05, kParameter = 0x17, kRegisters = 0x2f };
constexpr size_t kReservedOnHopper = 1024;  // ptxas counts it as static shared memory

template <typename T>
T read(const unsigned char* at) {
  T out;
  std::memcpy(&out, at, sizeof out);
  return out;
}

class Cubin {
 public:
  explicit Cubin(const unsigned char* at) : at_(at), header_(read<Elf64_Ehdr>(at)) {
    names_ = section(header_.e_shstrndx).sh_offset;
  }

  void read_into(Image& image) const {
    image.is_binary = true;
    const bool by_13 = header_.e_ident[EI_ABIVERSION] >= 8;  // as compilers of CUDA 13 write them
    image.capability = header_.e_flags >> (by_13 ? 8 : 0) & 0xff;
    image.driver = by_13 ? 13000 : image.capability >= 100 ? 12080 : 12000;
    for (int i = 0; i < header_.e_shnum; i++) {
      const Elf64_Shdr s = section(i);
      const std::string name = reinterpret_cast<const char*>(at_ + names_ + s.sh_name);
      const auto of_kernel = [&](const std::string& prefix) -> KernelImage* {
        return name.rfind(prefix, 0) == 0 ? &image.kernels[name.substr(prefix.size())] : nullptr;
      };
      of_kernel(".text.");
      if (KernelImage* k = of_kernel(".nv.info.")) read_info(s, *k);
      if (name.rfind(".nv.shared.reserved", 0) == 0) continue;
      if (KernelImage* k = of_kernel(".nv.shared."))
        k->static_shared = s.sh_size - (image.capability >= 90 ? kReservedOnHopper : 0);
    }
    for (int i = 0; i < header_.e_shnum; i++)
      if (section(i).sh_type == SHT_SYMTAB) read_registers(section(i), image);
  }

 private:
  Elf64_Shdr section(int i) const { return read<Elf64_Shdr>(at_ + header_.e_shoff + size_t(i) * header_.e_shentsize); }

  template <typename F>
  void each_attribute(const Elf64_Shdr& s, F body) const {
    const unsigned char *p = at_ + s.sh_offset, *const end = p + s.sh_size;
    while (p + 4 <= end) {
      const uint16_t size = read<uint16_t>(p + 2);
      const bool sized = p[0] == 4;
      if (sized) body(p[1], p + 4);
      p += 4 + (sized ? size : 0);
    }
  }

  void read_info(const Elf64_Shdr& s, KernelImage& k) const {
    k.has_parameters = true;
    each_attribute(s, [&](uint8_t attribute, const unsigned char* body) {
      if (attribute == kMaxThreads)
        k.max_threads = read<uint32_t>(body) * read<uint32_t>(body + 4) * read<uint32_t>(body + 8);
      if (attribute == kParameter) {
        const size_t ordinal = read<uint16_t>(body + 4);
        if (k.parameter_bytes.size() <= ordinal) k.parameter_bytes.resize(ordinal + 1);
        k.parameter_bytes[ordinal] = read<uint32_t>(body + 8) >> 18;
      }
    });
  }

  // The section .nv.info names kernels by their symbol's index.
  void read_registers(const Elf64_Shdr& symbols, Image& image) const {
    const uint64_t names = section(symbols.sh_link).sh_offset;
    for (int i = 0; i < header_.e_shnum; i++) {
      const Elf64_Shdr s = section(i);
      if (std::strcmp(reinterpret_cast<const char*>(at_ + names_ + s.sh_name), ".nv.info")) continue;
      each_attribute(s, [&](uint8_t attribute, const unsigned char* body) {
        if (attribute != kRegisters) return;
        const auto symbol = read<Elf64_Sym>(at_ + symbols.sh_offset + read<uint32_t>(body) * sizeof(Elf64_Sym));
        const auto found = image.kernels.find(reinterpret_cast<const char*>(at_ + names + symbol.st_name));
        if (found != image.kernels.end()) found->second.registers = static_cast<int>(read<uint32_t>(body + 4));
      });
    }
  }

  const unsigned char* at_;
  Elf64_Ehdr header_;
  uint64_t names_;
};

// The word after `key` from `at` on, and `at` moved behind it; empty at the end.
std::string word_after(const std::string& text, const char* key, size_t& at) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\n'; };
  const auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$'; };
  at = text.find(key, at);
  if (at == std::string::npos) return "";
  at += std::strlen(key);
  while (at < text.size() && is_space(text[at])) at++;
  const size_t start = at;
  while (at < text.size() && in_word(text[at])) at++;
  return text.substr(start, at - start);
}

// CUDA's version of the first driver that compiles PTX of a version: 12.0 to 12.5 brought 8.0 to 8.5, 12.7 brought 8.6.
int driver_for_ptx(const std::string& text) {
  const size_t at = text.find(".version");
  int major = 0, minor = 0;
  if (at == std::string::npos || std::sscanf(text.c_str() + at, ".version %d.%d", &major, &minor) != 2) return 0;
  return (major + 4) * 1000 + (minor + (major == 8 && minor > 5)) * 10;
}

// `.target sm_90a`, and `.entry NAME` for each kernel.
bool read_ptx(const std::string& text, Image& image) {
  image.driver = driver_for_ptx(text);
  size_t at = 0;
  const std::string target = word_after(text, ".target", at);
  if (target.rfind("sm_", 0) != 0) return false;
  image.capability = std::atoi(target.c_str() + 3);
  image.exact = target.back() == 'a';
  at = 0;
  for (std::string name; !(name = word_after(text, ".entry", at)).empty();) image.kernels[name];
  return true;
}

}  // namespace

bool Image::runs_on(int card) const {
  if (exact) return card == capability;
  return is_binary ? card / 10 == capability / 10 && card >= capability : card >= capability;
}

bool read_image(const void* at, Image& image) {
  const auto* bytes = static_cast<const unsigned char*>(at);
  if (std::memcmp(bytes, ELFMAG, SELFMAG)) return read_ptx(static_cast<const char*>(at), image);
  Cubin(bytes).read_into(image);
  return true;
}

}  // namespace host
