#include "core/threads.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

namespace smf {
namespace {

// About 20 microseconds: longer than the gap between two loops of a network, much shorter than a scheduler slice.
constexpr int kSpins = 500;
constexpr int kMaxThreads = 256;

void pause_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int available_processors() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1u, std::thread::hardware_concurrency());
}

struct Job {
  TaskFunction function;
  const void* context;
  int tasks;
  int helpers_left;  // workers that may still join; guarded by the pool's mutex
  int next_worker = 1;  // the caller is worker 0; guarded by the pool's mutex
  std::atomic<int> next{0};
  std::atomic<int> inside{0};  // workers that joined and have not left

  void work(int worker) {
    for (int task = next.fetch_add(1); task < tasks; task = next.fetch_add(1)) function(context, task, worker);
  }
};

class Pool {
 public:
  void run(Job& job) {
    const int helpers = job.helpers_left;  // workers count it down as soon as they see the job
    {
      std::lock_guard<std::mutex> lock(mutex_);
      try {
        for (; threads_ < helpers; ++threads_) std::thread([this] { serve(); }).detach();
      } catch (const std::system_error&) {
        // No memory for another thread: those that there are do the work, and the next call tries again.
      }
      jobs_.push_back(&job);
      version_.fetch_add(1);
    }
    if (helpers == 1)
      wake_.notify_one();
    else
      wake_.notify_all();
    job.work(0);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      jobs_.erase(std::find(jobs_.begin(), jobs_.end(), &job));
    }
    // No worker can join any more; those inside finish their last task.
    for (int spin = 0; spin < kSpins && job.inside.load(); ++spin) pause_processor();
    if (job.inside.load()) {
      std::unique_lock<std::mutex> lock(mutex_);
      left_.wait(lock, [&] { return job.inside.load() == 0; });
    } else {
      // The last worker drops `inside` under the mutex; passing through it keeps `job` alive until it has let go.
      std::lock_guard<std::mutex> lock(mutex_);
    }
  }

 private:
  Job* join(int& worker) {  // with the mutex held
    for (Job* job : jobs_)
      if (job->helpers_left > 0 && job->next.load() < job->tasks) {
        --job->helpers_left;
        job->inside.fetch_add(1);
        worker = job->next_worker++;
        return job;
      }
    return nullptr;
  }

  void serve() {
    for (;;) {
      int worker = 0;
      Job* job = nullptr;
      const unsigned seen = version_.load();
      {
        std::unique_lock<std::mutex> lock(mutex_);
        job = join(worker);
      }
      if (!job) {
        for (int spin = 0; spin < kSpins && version_.load() == seen; ++spin) pause_processor();
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [&] { return (job = join(worker)) != nullptr || version_.load() != seen; });
        if (!job) continue;
      }
      job->work(worker);
      std::lock_guard<std::mutex> lock(mutex_);
      job->inside.fetch_sub(1);
      left_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, left_;
  std::vector<Job*> jobs_;
  std::atomic<unsigned> version_{0};
  int threads_ = 0;
};

// Never destroyed: workers may still sleep in it while the program ends. After a fork the child has no workers, and
// the parent's mutex may be locked for ever, so the child leaves the old pool alone and starts another.
Pool& pool() {
  static std::mutex mutex;
  static Pool* current = nullptr;
  static pid_t owner = 0;
  std::lock_guard<std::mutex> lock(mutex);
  if (!current || owner != getpid()) {
    current = new Pool;
    owner = getpid();
  }
  return *current;
}

std::atomic<int> requested_threads{0};

}  // namespace

int num_threads() {
  int count = requested_threads.load();
  if (count == 0) {
    static const int available = std::min(available_processors(), kMaxThreads);
    count = available;
  }
  return count;
}

void set_num_threads(int count) { requested_threads.store(std::min(std::max(count, 1), kMaxThreads)); }

void run_tasks(int threads, int tasks, TaskFunction function, const void* context) {
  const int helpers = std::min(std::min(threads, kMaxThreads), tasks) - 1;
  if (helpers <= 0) {
    for (int task = 0; task < tasks; ++task) function(context, task, 0);
    return;
  }
  Job job{function, context, tasks, helpers};
  pool().run(job);
}

}  // namespace smf
