#include "core/arena.h"

#include <cstdlib>
#include <mutex>
#include <new>
#include <stdexcept>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace smf {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kHugePage = std::size_t(1) << 21;

std::size_t round_up(std::size_t value, std::size_t step) { return (value + step - 1) / step * step; }

}  // namespace

Arena::Arena() : block_(nullptr), capacity_(0), used_(0) {}

Arena::~Arena() { std::free(block_); }

void Arena::reserve(std::size_t bytes) {
  used_ = 0;
  if (bytes <= capacity_) return;
  std::free(block_);
  block_ = nullptr;
  capacity_ = 0;
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kLine;
  const std::size_t size = round_up(bytes, alignment);
  block_ = static_cast<char*>(std::aligned_alloc(alignment, size));
  if (!block_) throw std::bad_alloc();
#if defined(__linux__)
  // Feature maps are walked by column tiles: with 4 KiB pages that misses the TLB on every row.
  if (alignment == kHugePage) madvise(block_, size, MADV_HUGEPAGE);
#endif
  capacity_ = size;
}

float* Arena::floats(std::size_t count) {
  const std::size_t size = bytes(count);
  if (size > capacity_ - used_) throw std::length_error("arena: a call took more scratch memory than it reserved");
  float* start = reinterpret_cast<float*>(block_ + used_);
  used_ += size;
  return start;
}

std::size_t Arena::capacity() const { return capacity_; }
std::size_t Arena::used() const { return used_; }
void Arena::rewind(std::size_t position) { used_ = position; }
// One line more than asked for: vector loads may read past the end of an array, never past its block.
std::size_t Arena::bytes(std::size_t count) { return round_up(count * sizeof(float), kLine) + kLine; }
std::size_t Arena::slice(std::size_t count) { return round_up(count, kLine / sizeof(float)) + kLine / sizeof(float); }

struct ArenaPool::State {
  std::mutex mutex;
  std::vector<Arena*> free;
};

ArenaPool::ArenaPool() : state_(new State) {}

ArenaPool::~ArenaPool() {
  for (Arena* arena : state_->free) delete arena;
  delete state_;
}

Arena* ArenaPool::acquire(std::size_t bytes) {
  Arena* arena = nullptr;
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    if (!state_->free.empty()) {
      arena = state_->free.back();
      state_->free.pop_back();
    }
  }
  constexpr std::size_t kKeep = std::size_t(64) << 20;
  if (arena && arena->capacity() > kKeep && arena->capacity() / 4 > bytes) {
    delete arena;
    arena = nullptr;
  }
  if (!arena) arena = new Arena;
  try {
    arena->reserve(bytes);
  } catch (...) {
    delete arena;
    throw;
  }
  return arena;
}

void ArenaPool::release(Arena* arena) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->free.push_back(arena);
}

ArenaLease::ArenaLease(ArenaPool& pool, std::size_t bytes) : pool_(pool), arena_(pool.acquire(bytes)) {}
ArenaLease::~ArenaLease() { pool_.release(arena_); }
Arena& ArenaLease::arena() const { return *arena_; }

ArenaPool& shared_arenas() {
  static ArenaPool* pool = new ArenaPool;  // never destroyed: threads may still run while the program ends
  return *pool;
}

}  // namespace smf
